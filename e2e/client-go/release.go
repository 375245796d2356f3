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

// A chart of our own, written out by the templates of Go as Helm's are.
//
//go:embed chart/*.yaml
var chart embed.FS

// What a release of the chart is made with.
type values struct {
	Name, Image, Greeting string
	Metrics               bool
}

// In the order they are installed; they are removed in the opposite one.
var charted = []schema.GroupVersionResource{
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
}

// The objects of a release by resource.
type release map[schema.GroupVersionResource]*unstructured.Unstructured

// Installs a chart, lets others change it, upgrades it by a merge in three ways as Helm does, and removes it.
func charts(ctx context.Context, s suite) error {
	first, err := render(values{"shop", "shop:1", "hello", false})
	if err != nil {
		return err
	}
	if err := s.upgrade(ctx, 1, release{}, first); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if err := s.meddle(ctx); err != nil {
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
	made := release{}
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
		made[charted[slices.IndexFunc(charted, is)]] = &unstructured.Unstructured{Object: object}
	}
	return made, nil
}

func (s suite) objects(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	return s.dynamic.Resource(gvr).Namespace(namespace)
}

// Brings what is there from one release to the next: creates, merges, removes; and keeps a record.
func (s suite) upgrade(ctx context.Context, revision int, before, after release) error {
	for _, gvr := range charted {
		object, wanted := after[gvr]
		old, was := before[gvr]
		var err error
		switch {
		case wanted && !was:
			_, err = s.objects(gvr).Create(ctx, object, metav1.CreateOptions{FieldManager: "helm"})
		case wanted:
			err = s.merge(ctx, gvr, old, object)
		case was:
			err = s.objects(gvr).Delete(ctx, old.GetName(), metav1.DeleteOptions{})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", gvr.Resource, err)
		}
	}
	manifest, err := json.Marshal(after[charted[3]])
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

// The last manifest, the new one and what is there make a strategic merge patch.
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
	var texts [3][]byte
	for i, one := range []*unstructured.Unstructured{old, object, live} {
		if texts[i], err = json.Marshal(one); err != nil {
			return err
		}
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(texts[0], texts[1], texts[2], lookup, true)
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "helm"}
	_, err = s.objects(gvr).Patch(ctx, old.GetName(), types.StrategicMergePatchType, patch, options)
	return err
}

// Others scale the deployment and put a container of theirs into it.
func (s suite) meddle(ctx context.Context) error {
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
			return fmt.Errorf("what the chart no longer says is still there: %v", container.Env)
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
		return fmt.Errorf("what left the chart is still there: %v", err)
	}
	return nil
}

func (s suite) uninstall(ctx context.Context, installed release) error {
	for _, gvr := range slices.Backward(charted) {
		if object, there := installed[gvr]; there {
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
		return fmt.Errorf("%d records of releases", len(found.Items))
	}
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, records); err != nil {
		return err
	}
	for _, gvr := range charted {
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
