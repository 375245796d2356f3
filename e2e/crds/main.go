// Tests of a server with CRDs of the ecosystem. The server must accept each CRD, store a valid object of each version as
// Kubernetes' own library does, and reject invalid ones with the errors of the library.
//
// `suite fetch FILE` downloads the CRDs and writes their paths to the file; `suite FILE` runs against the server of
// $KUBECONFIG. CRDs that cannot be downloaded are reported; too few are a failure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// The minimum number of CRDs that must pass with an object.
	minPassed = 40
	timeout   = 20 * time.Second
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// crd is a CRD as it was published, and decoded.
type crd struct {
	raw   map[string]any
	typed apiextensionsv1.CustomResourceDefinition
}

// tally counts the outcomes.
type tally struct {
	// CRDs that the server accepted, and those that it rejected as the library does.
	accepted, rejected int
	// Valid objects stored, invalid objects rejected, and objects without a variant that satisfies the CEL rules.
	stored, invalid, skippedByRules int
	problems                        []string
}

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "fetch":
		err = fetchTo(os.Args[2])
	case len(os.Args) == 2:
		err = run(os.Args[1])
	default:
		err = errors.New("usage: suite [fetch] FILE")
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func fetchTo(file string) error {
	all, err := fetch()
	if err != nil {
		return err
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func run(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var all []module
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var sum tally
	for _, module := range all {
		before := sum
		for _, file := range module.Files {
			found, err := read(file)
			if err != nil {
				sum.problem("%v", err)
			}
			for _, crd := range found {
				sum.try(ctx, client, crd)
			}
		}
		fmt.Printf("%-62s %3d CRDs, %3d objects stored, %4d invalid ones rejected\n", module.Module,
			sum.accepted-before.accepted, sum.stored-before.stored, sum.invalid-before.invalid)
	}
	return sum.report()
}

func (t *tally) report() error {
	for _, problem := range t.problems {
		fmt.Println("FAILED ", problem)
	}
	fmt.Printf("%d CRDs accepted and %d rightly rejected, %d objects stored, %d invalid objects rejected, %d versions without an object that satisfies its CEL rules\n",
		t.accepted, t.rejected, t.stored, t.invalid, t.skippedByRules)
	if len(t.problems) > 0 {
		return fmt.Errorf("%d disagreements", len(t.problems))
	}
	if t.accepted < minPassed || t.stored < minPassed {
		return fmt.Errorf("at least %d CRDs with an object must pass", minPassed)
	}
	return nil
}

func (t *tally) problem(format string, args ...any) {
	t.problems = append(t.problems, fmt.Sprintf(format, args...))
}

// try creates one CRD, its objects, and deletes it.
func (t *tally) try(ctx context.Context, client dynamic.Interface, crd crd) {
	name := crd.typed.Name
	// The conversion webhook of an operator does not run here, so the strategy is None.
	crd.typed.Spec.Conversion = nil
	if spec, ok := crd.raw["spec"].(map[string]any); ok {
		delete(spec, "conversion")
	}
	expected, err := validateCRD(crd.typed)
	if err != nil {
		t.problem("%s: error of the library: %v", name, err)
		return
	}
	err = create(ctx, client, crd)
	if len(expected) > 0 {
		if problem := compareErrors(err, expected, nil); problem != "" {
			t.problem("%s: %s", name, problem)
		}
		t.rejected++
		return
	}
	if err != nil {
		t.problem("%s is not accepted: %v", name, err)
		return
	}
	t.accepted++
	served, storage, err := oracles(crd.typed)
	if err != nil {
		t.problem("%s: error of the library: %v", name, err)
	}
	for version, oracle := range served {
		t.objects(ctx, client, crd.typed, version, oracle, storage)
	}
	// Only one CRD exists at a time: the next one may have the same names.
	if err := client.Resource(crdResource).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.problem("%s is not deleted: %v", name, err)
	}
}

// oracles returns one oracle for each served version, and that of the storage version.
func oracles(typed apiextensionsv1.CustomResourceDefinition) (served map[string]*oracle, storage *oracle, err error) {
	served = map[string]*oracle{}
	for _, version := range typed.Spec.Versions {
		oracle, err := newOracle(typed, version)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", version.Name, err)
		}
		if version.Served {
			served[version.Name] = oracle
		}
		if version.Storage {
			storage = oracle
		}
	}
	return served, storage, nil
}

// create creates a CRD and waits until it is established.
func create(ctx context.Context, client dynamic.Interface, crd crd) error {
	_, err := client.Resource(crdResource).Create(ctx, &unstructured.Unstructured{Object: crd.raw}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		found, err := client.Resource(crdResource).Get(ctx, crd.typed.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, isEstablished), nil
	})
}

func isEstablished(condition any) bool {
	fields, _ := condition.(map[string]any)
	return fields["type"] == "Established" && fields["status"] == "True"
}

// objects creates a valid object of a version, and invalid ones, which the server must reject.
func (t *tally) objects(ctx context.Context, client dynamic.Interface, typed apiextensionsv1.CustomResourceDefinition, version string, oracle, storage *oracle) {
	resource := schema.GroupVersionResource{Group: typed.Spec.Group, Version: version, Resource: typed.Spec.Names.Plural}
	var objects dynamic.ResourceInterface = client.Resource(resource)
	if typed.Spec.Scope == apiextensionsv1.NamespaceScoped {
		objects = client.Resource(resource).Namespace("default")
	}
	create := func(body map[string]any) (*unstructured.Unstructured, error) {
		return objects.Create(ctx, &unstructured.Unstructured{Object: body}, metav1.CreateOptions{})
	}
	where := typed.Name + " " + version
	body, valid := oracle.object()
	for _, invalid := range oracle.invalidVariants(body) {
		bySchema, byRules := oracle.errors(invalid)
		_, err := create(invalid)
		if problem := compareErrors(err, bySchema, byRules); problem != "" {
			t.problem("%s: %s", where, problem)
			continue
		}
		t.invalid++
	}
	if !valid {
		t.skippedByRules++
		return
	}
	expected := oracle.stored(body, storage)
	stored, err := create(body)
	if err != nil {
		t.problem("%s: a valid object is rejected: %v", where, err)
		return
	}
	if problem := differs(stored.Object, expected); problem != "" {
		t.problem("%s: %s", where, problem)
		return
	}
	t.stored++
	if err := objects.Delete(ctx, "sample-"+version, metav1.DeleteOptions{}); err != nil {
		t.problem("%s: %v", where, err)
	}
}

// compareErrors returns how a response differs from the errors of the library; empty if it does not.
func compareErrors(err error, bySchema, byRules []cause) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Sprintf("an invalid object is accepted, or another error: %v; expected %v", err, bySchema)
	}
	if status.Status().Code != 422 || status.Status().Details == nil {
		return fmt.Sprintf("not rejected as Invalid: %v; expected %v", err, bySchema)
	}
	var reported []cause
	for _, one := range status.Status().Details.Causes {
		reported = append(reported, cause{string(one.Type), one.Field, one.Message})
	}
	for _, one := range bySchema {
		if !slices.Contains(reported, one) {
			return fmt.Sprintf("missing error: %v; reported: %v", one, reported)
		}
	}
	for _, one := range reported {
		additional := strings.HasSuffix(one.Message, rulesNotChecked) || strings.Contains(one.Message, scaleAccessorError)
		if !slices.Contains(bySchema, one) && !slices.Contains(byRules, one) && !additional {
			return fmt.Sprintf("unexpected error: %v; expected: %v", one, bySchema)
		}
	}
	return ""
}

// differs returns how a stored object differs from the expected one, without metadata; empty if it does not.
func differs(stored, expected map[string]any) string {
	for name, value := range expected {
		if !isMeta(name) && !reflect.DeepEqual(stored[name], value) {
			return fmt.Sprintf("%s is stored as %v, expected %v", name, stored[name], value)
		}
	}
	for name := range stored {
		if _, known := expected[name]; !known && !isMeta(name) {
			return fmt.Sprintf("%s is stored, but was not sent", name)
		}
	}
	return ""
}
