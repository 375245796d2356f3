package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// A chart of our own, rendered with Go templates as Helm does.
//
//go:embed chart/*.yaml
var chart embed.FS

// The values of a release.
type values struct {
	Name, Image, Greeting string
	Metrics               bool
}

// The resources of the chart in the order of installation; they are deleted in reverse order.
var resources = []schema.GroupVersionResource{
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
}

// The objects of a release by resource.
type release map[schema.GroupVersionResource]*unstructured.Unstructured

// Installs a chart, changes it with another field manager, upgrades it with a three-way merge as Helm does, and uninstalls it.
func charts(ctx context.Context, s suite) error {
	first, err := render(values{"shop", "shop:1", "hello", false})
	if err != nil {
		return err
	}
	if err := s.upgrade(ctx, 1, release{}, first); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if err := s.changeAsOtherManager(ctx); err != nil {
		return err
	}
	second, err := render(values{"shop", "shop:2", "welcome", true})
	if err != nil {
		return err
	}
	if err := s.upgrade(ctx, 2, first, second); err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	if err := s.checkUpgraded(ctx); err != nil {
		return err
	}
	return s.uninstall(ctx, second)
}

func render(values values) (release, error) {
	parsed, err := template.ParseFS(chart, "chart/*.yaml")
	if err != nil {
		return nil, err
	}
	objects := release{}
	for _, one := range parsed.Templates() {
		var text bytes.Buffer
		if err := one.Execute(&text, values); err != nil {
			return nil, err
		}
		object := map[string]any{}
		if err := yaml.Unmarshal(text.Bytes(), &object); err != nil {
			return nil, err
		}
		if len(object) == 0 {
			continue
		}
		kind, _ := object["kind"].(string)
		is := func(gvr schema.GroupVersionResource) bool { return gvr.Resource == strings.ToLower(kind)+"s" }
		objects[resources[slices.IndexFunc(resources, is)]] = &unstructured.Unstructured{Object: object}
	}
	return objects, nil
}

func (s suite) objects(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	return s.dynamic.Resource(gvr).Namespace(namespace)
}

// Moves the objects from one release to the next (create, merge, delete), and stores the release record.
func (s suite) upgrade(ctx context.Context, revision int, before, after release) error {
	for _, gvr := range resources {
		object, isNew := after[gvr]
		old, isOld := before[gvr]
		var err error
		switch {
		case isNew && !isOld:
			_, err = s.objects(gvr).Create(ctx, object, metav1.CreateOptions{FieldManager: "helm"})
		case isNew:
			err = s.merge(ctx, gvr, old, object)
		case isOld:
			err = s.objects(gvr).Delete(ctx, old.GetName(), metav1.DeleteOptions{})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", gvr.Resource, err)
		}
	}
	manifest, err := json.Marshal(after[resources[3]])
	if err != nil {
		return err
	}
	record := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("sh.helm.release.v1.shop.v%d", revision),
			Labels: map[string]string{"owner": "helm", "name": "shop"},
		},
		Type: "helm.sh/release.v1",
		Data: map[string][]byte{"release": manifest},
	}
	_, err = s.typed.CoreV1().Secrets(namespace).Create(ctx, record, metav1.CreateOptions{})
	return err
}

// Patches an object with the three-way strategic merge of the last manifest, the new manifest and the live object.
func (s suite) merge(ctx context.Context, gvr schema.GroupVersionResource, old, object *unstructured.Unstructured) error {
	live, err := s.objects(gvr).Get(ctx, old.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return err
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return err
	}
	var manifests [3][]byte
	for i, one := range []*unstructured.Unstructured{old, object, live} {
		if manifests[i], err = json.Marshal(one); err != nil {
			return err
		}
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(manifests[0], manifests[1], manifests[2], lookup, true)
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "helm"}
	_, err = s.objects(gvr).Patch(ctx, old.GetName(), types.StrategicMergePatchType, patch, options)
	return err
}

// Scales the Deployment and adds a sidecar as another field manager.
func (s suite) changeAsOtherManager(ctx context.Context) error {
	patch := `{"spec":{"replicas":4,"template":{"spec":{"containers":[{"name":"sidecar","image":"side:1"}]}}}}`
	options := metav1.PatchOptions{FieldManager: "mesh"}
	deployments := s.typed.AppsV1().Deployments(namespace)
	_, err := deployments.Patch(ctx, "shop", types.StrategicMergePatchType, []byte(patch), options)
	return err
}

func (s suite) checkUpgraded(ctx context.Context) error {
	deployment, err := s.typed.AppsV1().Deployments(namespace).Get(ctx, "shop", metav1.GetOptions{})
	if err != nil {
		return err
	}
	var images []string
	for _, container := range deployment.Spec.Template.Spec.Containers {
		images = append(images, container.Image)
		if len(container.Env) > 0 {
			return fmt.Errorf("a field removed from the chart still exists: %v", container.Env)
		}
	}
	slices.Sort(images)
	if !slices.Equal(images, []string{"shop:2", "side:1"}) || *deployment.Spec.Replicas != 4 {
		return fmt.Errorf("images %v and %d replicas", images, *deployment.Spec.Replicas)
	}
	service, err := s.typed.CoreV1().Services(namespace).Get(ctx, "shop", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(service.Spec.Ports) != 2 || service.Spec.ClusterIP == "" {
		return fmt.Errorf("ports %v of %q", service.Spec.Ports, service.Spec.ClusterIP)
	}
	_, err = s.typed.CoreV1().ServiceAccounts(namespace).Get(ctx, "shop-scraper", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("an object removed from the chart still exists: %v", err)
	}
	return nil
}

func (s suite) uninstall(ctx context.Context, installed release) error {
	for _, gvr := range slices.Backward(resources) {
		if object, exists := installed[gvr]; exists {
			if err := s.objects(gvr).Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
	}
	records := metav1.ListOptions{LabelSelector: "owner=helm,name=shop", FieldSelector: "type=helm.sh/release.v1"}
	secrets := s.typed.CoreV1().Secrets(namespace)
	found, err := secrets.List(ctx, records)
	if err != nil {
		return err
	}
	if len(found.Items) != 2 {
		return fmt.Errorf("%d release records", len(found.Items))
	}
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, records); err != nil {
		return err
	}
	for _, gvr := range resources {
		left, err := s.objects(gvr).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=shop"})
		if err != nil {
			return err
		}
		if len(left.Items) > 0 {
			return fmt.Errorf("%d %s are left", len(left.Items), gvr.Resource)
		}
	}
	return nil
}
