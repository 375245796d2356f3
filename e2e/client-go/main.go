// Tests of client-go against a server: typed clients in protobuf, informers, pagination, conflicts, patches, server-side apply.
//
// The server is the one of $KUBECONFIG. Each test is a function and prints one line with its outcome.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	namespace = "client-go"
	protobuf  = "application/vnd.kubernetes.protobuf"
	timeout   = 30 * time.Second
)

type suite struct {
	typed   *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
}

type test struct {
	name string
	run  func(context.Context, suite) error
}

var tests = []test{
	{"typed clients use protobuf", crud},
	{"the second of two writers gets a conflict, and a retry succeeds", conflict},
	{"an object is patched with three patch types", patches},
	{"a server-side apply owns its fields and reports conflicts", apply},
	{"a list is paginated", pages},
	{"a watch delivers every change", changes},
	{"an informer delivers the existing objects and then the changes", informer},
	{"the dynamic client reads an object of the typed client", untyped},
	{"a lease is acquired and renewed", lease},
	{"an invalid object is rejected with its field errors", invalid},
	{"a chart is installed, upgraded with a three-way merge, and uninstalled", charts},
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	s, err := connect(ctx)
	if err != nil {
		fmt.Println("cannot start:", err)
		os.Exit(2)
	}
	failed := 0
	for _, test := range tests {
		if err := test.run(ctx, s); err != nil {
			failed++
			fmt.Printf("FAILED  %s: %v\n", test.name, err)
		} else {
			fmt.Println("ok     ", test.name)
		}
	}
	fmt.Printf("client-go: %d passed, %d failed\n", len(tests)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func connect(ctx context.Context) (suite, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return suite{}, err
	}
	jsonConfig := rest.CopyConfig(config)
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return suite{}, err
	}
	untyped, err := dynamic.NewForConfig(jsonConfig)
	if err != nil {
		return suite{}, err
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err = typed.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	return suite{typed, untyped}, err
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

func crud(ctx context.Context, s suite) error {
	maps := s.typed.CoreV1().ConfigMaps(namespace)
	created, err := maps.Create(ctx, configMap("crud", map[string]string{"a": "1"}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Data["b"] = "2"
	updated, err := maps.Update(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	read, err := maps.Get(ctx, "crud", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(read.Data, updated.Data) || read.UID != created.UID {
		return fmt.Errorf("read %v, wrote %v", read, updated)
	}
	if err := maps.Delete(ctx, "crud", metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err = maps.Get(ctx, "crud", metav1.GetOptions{})
	return expectError(err, apierrors.IsNotFound)
}

func conflict(ctx context.Context, s suite) error {
	maps := s.typed.CoreV1().ConfigMaps(namespace)
	one, err := maps.Create(ctx, configMap("contested", map[string]string{"a": "1"}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	other := one.DeepCopy()
	one.Data["a"] = "one"
	if _, err := maps.Update(ctx, one, metav1.UpdateOptions{}); err != nil {
		return err
	}
	other.Data["a"] = "other"
	_, err = maps.Update(ctx, other, metav1.UpdateOptions{})
	if err := expectError(err, apierrors.IsConflict); err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		newest, err := maps.Get(ctx, "contested", metav1.GetOptions{})
		if err != nil {
			return err
		}
		newest.Data["a"] = "other"
		_, err = maps.Update(ctx, newest, metav1.UpdateOptions{})
		return err
	})
}

func patches(ctx context.Context, s suite) error {
	maps := s.typed.CoreV1().ConfigMaps(namespace)
	if _, err := maps.Create(ctx, configMap("patched", map[string]string{"a": "1"}), metav1.CreateOptions{}); err != nil {
		return err
	}
	for kind, body := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/data/j","value":"1"}]`,
		types.MergePatchType:          `{"data":{"m":"1"}}`,
		types.StrategicMergePatchType: `{"data":{"s":"1"}}`,
	} {
		if _, err := maps.Patch(ctx, "patched", kind, []byte(body), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	read, err := maps.Get(ctx, "patched", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(read.Data) != 4 {
		return fmt.Errorf("read %v", read.Data)
	}
	return nil
}

func apply(ctx context.Context, s suite) error {
	maps := s.typed.CoreV1().ConfigMaps(namespace)
	applyAs := func(manager, value string, force bool) error {
		object := applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"a": value})
		_, err := maps.Apply(ctx, object, metav1.ApplyOptions{FieldManager: manager, Force: force})
		return err
	}
	if err := applyAs("one", "1", false); err != nil {
		return err
	}
	if err := expectError(applyAs("two", "2", false), apierrors.IsConflict); err != nil {
		return err
	}
	return applyAs("two", "2", true)
}

func pages(ctx context.Context, s suite) error {
	maps := s.typed.CoreV1().ConfigMaps(namespace)
	var expected, names []string
	for number := range 7 {
		object := configMap(fmt.Sprintf("page-%d", number), nil)
		object.Labels = map[string]string{"of": "pages"}
		expected = append(expected, object.Name)
		if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	lists := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return maps.List(ctx, options)
	}))
	lists.PageSize = 3
	err := lists.EachListItem(ctx, metav1.ListOptions{LabelSelector: "of=pages"}, func(object runtime.Object) error {
		names = append(names, object.(*corev1.ConfigMap).Name)
		return nil
	})
	if err == nil && !reflect.DeepEqual(names, expected) {
		err = fmt.Errorf("read %v", names)
	}
	return err
}

func changes(ctx context.Context, s suite) error {
	maps := s.typed.CoreV1().ConfigMaps(namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	events, err := maps.Watch(ctx, metav1.ListOptions{
		ResourceVersion: list.ResourceVersion,
		FieldSelector:   "metadata.name=watched",
	})
	if err != nil {
		return err
	}
	defer events.Stop()
	object, err := maps.Create(ctx, configMap("watched", map[string]string{"a": "1"}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	object.Data["a"] = "2"
	if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "watched", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, expected := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		select {
		case event := <-events.ResultChan():
			if event.Type != expected {
				return fmt.Errorf("%s instead of %s", event.Type, expected)
			}
		case <-time.After(timeout):
			return fmt.Errorf("no %s", expected)
		}
	}
	return nil
}

func informer(ctx context.Context, s suite) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	maps := s.typed.CoreV1().ConfigMaps(namespace)
	if _, err := maps.Create(ctx, configMap("informed-0", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(s.typed, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps()
	added := make(chan string, 100)
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { added <- object.(*corev1.ConfigMap).Name },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return fmt.Errorf("the informer did not sync")
	}
	if _, err := informer.Lister().ConfigMaps(namespace).Get("informed-0"); err != nil {
		return err
	}
	if _, err := maps.Create(ctx, configMap("informed-1", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	for {
		select {
		case name := <-added:
			if name == "informed-1" {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("the informer did not deliver the object")
		}
	}
}

func untyped(ctx context.Context, s suite) error {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	maps := s.dynamic.Resource(resource).Namespace(namespace)
	if _, err := s.typed.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("typed", map[string]string{"a": "1"}), metav1.CreateOptions{}); err != nil {
		return err
	}
	read, err := maps.Get(ctx, "typed", metav1.GetOptions{})
	if err != nil {
		return err
	}
	value, _, _ := unstructured.NestedString(read.Object, "data", "a")
	if value != "1" {
		return fmt.Errorf("read %v", read.Object)
	}
	keys := []string{}
	for key := range read.Object {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	if !reflect.DeepEqual(keys, []string{"apiVersion", "data", "kind", "metadata"}) {
		return fmt.Errorf("the object has the keys %v", keys)
	}
	return nil
}

func lease(ctx context.Context, s suite) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "leader",
		s.typed.CoreV1(), s.typed.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
	if err != nil {
		return err
	}
	now := metav1.Now()
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "me", LeaseDurationSeconds: 15, AcquireTime: now, RenewTime: now}
	if err := lock.Create(ctx, record); err != nil {
		return err
	}
	record.LeaderTransitions = 1
	if err := lock.Update(ctx, record); err != nil {
		return err
	}
	read, _, err := lock.Get(ctx)
	if err == nil && (read.HolderIdentity != "me" || read.LeaderTransitions != 1) {
		err = fmt.Errorf("read %v", read)
	}
	return err
}

func invalid(ctx context.Context, s suite) error {
	_, err := s.typed.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("Not_Valid", nil), metav1.CreateOptions{})
	if err := expectError(err, apierrors.IsInvalid); err != nil {
		return err
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	if len(causes) == 0 || causes[0].Field != "metadata.name" {
		return fmt.Errorf("causes %v", causes)
	}
	return nil
}

// expectError returns an error unless err is of the expected kind.
func expectError(err error, is func(error) bool) error {
	if err == nil {
		return fmt.Errorf("the call succeeded")
	}
	if !is(err) {
		return fmt.Errorf("another error: %w", err)
	}
	return nil
}
