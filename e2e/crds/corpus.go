package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// source is a Go module at a version, and the paths of its CRDs.
type source struct {
	Module string
	Globs  []string
}

// Versions are pinned, so that all runs test the same CRDs. They are downloaded, not stored in the repository.
var sources = []source{
	{"sigs.k8s.io/gateway-api@v1.5.0", []string{"config/crd/experimental/*.yaml"}},
	{"github.com/cert-manager/cert-manager@v1.21.2", []string{"deploy/crds/*.yaml"}},
	{"github.com/prometheus-operator/prometheus-operator@v0.85.0", []string{"example/prometheus-operator-crd/*.yaml"}},
	{"sigs.k8s.io/cluster-api@v1.14.2", []string{"core/config/crd/bases/*.yaml", "controlplane/kubeadm/config/crd/bases/*.yaml", "bootstrap/kubeadm/config/crd/bases/*.yaml"}},
	{"sigs.k8s.io/cluster-api-provider-aws/v2@v2.9.0", []string{"config/crd/bases/*.yaml"}},
	{"github.com/argoproj/argo-rollouts@v1.10.1", []string{"manifests/crds/*.yaml"}},
	{"github.com/argoproj/argo-workflows/v3@v3.6.0", []string{"manifests/base/crds/*/*.yaml"}},
	{"github.com/crossplane/crossplane/v2@v2.0.0", []string{"cluster/crds/*.yaml"}},
	{"github.com/fluxcd/kustomize-controller@v1.7.3", []string{"config/crd/bases/*.yaml"}},
	{"github.com/fluxcd/notification-controller@v1.6.0", []string{"config/crd/bases/*.yaml"}},
	{"istio.io/api@v1.31.1", []string{"kubernetes/customresourcedefinitions.gen.yaml"}},
	{"knative.dev/serving@v0.42.2", []string{"config/core/300-resources/*.yaml"}},
	{"knative.dev/eventing@v0.42.0", []string{"config/core/resources/*.yaml"}},
	{"github.com/tektoncd/pipeline@v1.0.0", []string{"config/300-crds/*.yaml"}},
	{"github.com/kedacore/keda/v2@v2.21.0", []string{"config/crd/bases/*.yaml"}},
	{"sigs.k8s.io/kueue@v0.14.0", []string{"config/components/crd/bases/*.yaml"}},
	{"sigs.k8s.io/karpenter@v1.8.0", []string{"pkg/apis/crds/*.yaml"}},
	{"github.com/kyverno/kyverno@v1.19.1", []string{"config/crds/*/*.yaml"}},
	{"github.com/open-policy-agent/gatekeeper/v3@v3.23.1", []string{"charts/gatekeeper/crds/*.yaml"}},
	{"github.com/elastic/cloud-on-k8s/v3@v3.5.0", []string{"config/crds/v1/resources/*.yaml"}},
}

// module is a downloaded module and its files with CRDs.
type module struct {
	Module string
	Files  []string
}

// fetch downloads all modules. It prints those that cannot be downloaded, with the reason.
func fetch() ([]module, error) {
	goProgram := os.Getenv("SETPOINT_GO")
	if goProgram == "" {
		goProgram = "go"
	}
	var all []module
	for _, source := range sources {
		files, err := source.fetch(goProgram)
		if err != nil {
			fmt.Printf("unavailable: %s: %v\n", source.Module, err)
			continue
		}
		all = append(all, module{source.Module, files})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("none of %d modules can be downloaded", len(sources))
	}
	return all, nil
}

func (s source) fetch(goProgram string) ([]string, error) {
	var result struct{ Dir, Error string }
	command := exec.Command(goProgram, "mod", "download", "-json", s.Module)
	// Outside of any module: a go.mod would affect the download.
	command.Dir = os.TempDir()
	out, runErr := command.Output()
	if err := json.Unmarshal(out, &result); err != nil {
		return nil, fmt.Errorf("%v (%v)", runErr, err)
	}
	if result.Error != "" || result.Dir == "" {
		return nil, fmt.Errorf("%s", strings.SplitN(result.Error, "\n", 2)[0])
	}
	var files []string
	for _, glob := range s.Globs {
		found, err := filepath.Glob(filepath.Join(result.Dir, glob))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file matches %v", s.Globs)
	}
	return files, nil
}

// read returns the CRDs in a file.
func read(file string) ([]crd, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var found []crd
	for _, document := range bytes.Split(content, []byte("\n---")) {
		text, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var typed apiextensionsv1.CustomResourceDefinition
		if err := json.Unmarshal(text, &typed); err != nil || typed.Kind != "CustomResourceDefinition" {
			continue
		}
		raw := map[string]any{}
		if err := json.Unmarshal(text, &raw); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found = append(found, crd{raw, typed})
	}
	return found, nil
}
