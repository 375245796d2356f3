// Definitions of the ecosystem against a server: each is accepted, a valid object of each version is stored as
// Kubernetes' own library would keep it, and broken ones are refused with the fields that the library names.
//
// `suite fetch FILE` fetches the definitions and writes where they are; `suite FILE` runs against the server of
// $KUBECONFIG. What cannot be fetched is named; too few are a failure.
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
	// How many definitions must have passed with an object of theirs.
	floor    = 40
	patience = 20 * time.Second
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

type definition struct {
	whole map[string]any
	typed apiextensionsv1.CustomResourceDefinition
}

// What was seen, for the last line.
type tally struct {
	definitions, refused, stored, byRules, broken int
	problems                                      []string
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
	var all []fetched
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
			definitions, err := read(file)
			if err != nil {
				sum.problem("%v", err)
			}
			for _, definition := range definitions {
				sum.try(ctx, client, definition)
			}
		}
		fmt.Printf("%-62s %3d definitions, %3d objects stored, %4d broken ones refused\n", module.Module,
			sum.definitions-before.definitions, sum.stored-before.stored, sum.broken-before.broken)
	}
	return sum.told()
}

func (t *tally) told() error {
	for _, problem := range t.problems {
		fmt.Println("FAILED ", problem)
	}
	fmt.Printf("%d definitions accepted and %d rightly refused, %d objects stored, %d broken objects refused, %d objects left to rules in CEL\n",
		t.definitions, t.refused, t.stored, t.broken, t.byRules)
	if len(t.problems) > 0 {
		return fmt.Errorf("%d disagreements", len(t.problems))
	}
	if t.definitions < floor || t.stored < floor {
		return fmt.Errorf("at least %d definitions with an object are wanted", floor)
	}
	return nil
}

func (t *tally) problem(format string, args ...any) {
	t.problems = append(t.problems, fmt.Sprintf(format, args...))
}

// Takes one definition through its life.
func (t *tally) try(ctx context.Context, client dynamic.Interface, definition definition) {
	name := definition.typed.Name
	// Definitions of an operator may name a webhook that is not there to convert; versions are of one form then.
	definition.typed.Spec.Conversion = nil
	if spec, is := definition.whole["spec"].(map[string]any); is {
		delete(spec, "conversion")
	}
	wrong, err := wrongIn(definition.typed)
	if err != nil {
		t.problem("%s: the library says %v", name, err)
		return
	}
	err = create(ctx, client, definition)
	if len(wrong) > 0 {
		if problem := refused(err, wrong, nil); problem != "" {
			t.problem("%s: %s", name, problem)
		}
		t.refused++
		return
	}
	if err != nil {
		t.problem("%s is not accepted: %v", name, err)
		return
	}
	t.definitions++
	judges, stored, err := judges(definition.typed)
	if err != nil {
		t.problem("%s: the library says %v", name, err)
	}
	for version, judge := range judges {
		t.objects(ctx, client, definition.typed, version, judge, stored)
	}
	// Only one definition is there at a time: the next one may want the same names.
	if err := client.Resource(crds).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.problem("%s is not deleted: %v", name, err)
	}
}

// One judge for each version that is served, and the one of the version that is stored.
func judges(typed apiextensionsv1.CustomResourceDefinition) (served map[string]*judge, stored *judge, err error) {
	served = map[string]*judge{}
	for _, version := range typed.Spec.Versions {
		judge, err := newJudge(typed, version)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", version.Name, err)
		}
		if version.Served {
			served[version.Name] = judge
		}
		if version.Storage {
			stored = judge
		}
	}
	return served, stored, nil
}

// Creates a definition, and waits until it is established.
func create(ctx context.Context, client dynamic.Interface, definition definition) error {
	_, err := client.Resource(crds).Create(ctx, &unstructured.Unstructured{Object: definition.whole}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		found, err := client.Resource(crds).Get(ctx, definition.typed.Name, metav1.GetOptions{})
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

// Stores a valid object of a version, and is refused with broken ones.
func (t *tally) objects(ctx context.Context, client dynamic.Interface, typed apiextensionsv1.CustomResourceDefinition, version string, judge, kept *judge) {
	resource := schema.GroupVersionResource{Group: typed.Spec.Group, Version: version, Resource: typed.Spec.Names.Plural}
	var objects dynamic.ResourceInterface = client.Resource(resource)
	if typed.Spec.Scope == apiextensionsv1.NamespaceScoped {
		objects = client.Resource(resource).Namespace("default")
	}
	create := func(body map[string]any) (*unstructured.Unstructured, error) {
		return objects.Create(ctx, &unstructured.Unstructured{Object: body}, metav1.CreateOptions{})
	}
	where := typed.Name + " " + version
	body, valid := judge.object()
	for _, wrong := range judge.broken(body) {
		bySchema, byRules := judge.errors(wrong)
		_, err := create(wrong)
		if problem := refused(err, bySchema, byRules); problem != "" {
			t.problem("%s: %s", where, problem)
			continue
		}
		t.broken++
	}
	if !valid {
		t.byRules++
		return
	}
	expected := judge.stored(body, kept)
	stored, err := create(body)
	if err != nil {
		t.problem("%s: a valid object is refused: %v", where, err)
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

// Why an answer is not the refusal that the library gives; nothing if it is.
func refused(err error, bySchema, byRules []cause) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Sprintf("a broken object is taken, or else: %v; expected %v", err, bySchema)
	}
	if status.Status().Code != 422 || status.Status().Details == nil {
		return fmt.Sprintf("not refused as invalid: %v; expected %v", err, bySchema)
	}
	var told []cause
	for _, one := range status.Status().Details.Causes {
		told = append(told, cause{string(one.Type), one.Field, one.Message})
	}
	for _, one := range bySchema {
		if !slices.Contains(told, one) {
			return fmt.Sprintf("not told: %v; told: %v", one, told)
		}
	}
	for _, one := range told {
		besides := strings.HasSuffix(one.Message, unchecked) || strings.Contains(one.Message, unreadable)
		if !slices.Contains(bySchema, one) && !slices.Contains(byRules, one) && !besides {
			return fmt.Sprintf("told too much: %v; expected: %v", one, bySchema)
		}
	}
	return ""
}

// Whether what is stored is another than what the library keeps, metadata aside.
func differs(stored, expected map[string]any) string {
	for name, value := range expected {
		if !isHead(name) && !reflect.DeepEqual(stored[name], value) {
			return fmt.Sprintf("%s is stored as %v, not %v", name, stored[name], value)
		}
	}
	for name := range stored {
		if _, known := expected[name]; !known && !isHead(name) {
			return fmt.Sprintf("%s is stored, though nobody gave it", name)
		}
	}
	return ""
}
