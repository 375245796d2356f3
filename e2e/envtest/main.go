// Tests of the program as the kube-apiserver and etcd of controller-runtime's envtest.
//
// The argument is the path of setpoint. Each test is a function and prints one line with its outcome. With the arguments
// `measure DIR N` it measures the start of the programs in a directory instead.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const timeout = 30 * time.Second

var widget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

type suite struct {
	environment *envtest.Environment
	config      *rest.Config
	client      client.Client
}

type test struct {
	name string
	run  func(context.Context, *suite) error
}

var tests = []test{
	{"a namespace exists, and no service account", bootstrap},
	{"a custom object is stored and read", custom},
	{"a manager reconciles custom objects", manager},
	{"a user without rights is rejected", forbidden},
	{"a deleted namespace stays, since no controller runs", terminating},
	{"objects outlive a restart of kube-apiserver", restart},
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if len(os.Args) == 4 && os.Args[1] == "measure" {
		count, err := strconv.Atoi(os.Args[3])
		if err == nil && count > 0 {
			err = measure(os.Args[2], count)
		}
		if err != nil {
			fmt.Println("cannot measure:", err)
			os.Exit(2)
		}
		return
	}
	s, err := start(os.Args[1])
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
	if err := s.environment.Stop(); err != nil {
		failed++
		fmt.Println("FAILED  the control plane stops:", err)
	}
	fmt.Printf("envtest: %d passed, %d failed\n", len(tests)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// Installs the programs and starts a control plane with a CustomResourceDefinition. Its directories are fixed, since
// envtest removes those that it creates when a process stops.
func start(setpoint string) (*suite, error) {
	dir, err := os.MkdirTemp("", "setpoint-envtest-")
	if err != nil {
		return nil, err
	}
	if output, err := exec.Command(setpoint, "envtest", "install", dir+"/assets").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, output)
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: dir + "/assets", CRDs: []*apiextensionsv1.CustomResourceDefinition{crd()}}
	environment.ControlPlane.GetAPIServer().CertDir = dir
	environment.ControlPlane.Etcd = &envtest.Etcd{DataDir: dir + "/data"}
	config, err := environment.Start()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{})
	return &suite{environment, config, c}, err
}

func crd() *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widget.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: widget.Kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: widget.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

func newWidget(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
	object.SetGroupVersionKind(widget)
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

func bootstrap(ctx context.Context, s *suite) error {
	if err := s.client.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
		return err
	}
	var accounts corev1.ServiceAccountList
	if err := s.client.List(ctx, &accounts); err != nil {
		return err
	}
	if len(accounts.Items) != 0 {
		return fmt.Errorf("%d service accounts", len(accounts.Items))
	}
	return nil
}

func custom(ctx context.Context, s *suite) error {
	object := newWidget("custom")
	if err := s.client.Create(ctx, object); err != nil {
		return err
	}
	return s.client.Get(ctx, client.ObjectKeyFromObject(object), newWidget("custom"))
}

func manager(ctx context.Context, s *suite) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, err := ctrl.NewManager(s.config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	reconciled := make(chan error, 1)
	reconciler := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		object := newWidget(request.Name)
		err := m.GetClient().Get(ctx, request.NamespacedName, object)
		if err == nil && request.Name == "managed" && object.Object["status"] == nil {
			object.Object["status"] = map[string]any{"ready": true}
			err = m.GetClient().Status().Update(ctx, object)
			reconciled <- err
		}
		return reconcile.Result{}, err
	})
	if err := ctrl.NewControllerManagedBy(m).Named("widgets").For(newWidget("")).Complete(reconciler); err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- m.Start(ctx) }()
	if err := s.client.Create(ctx, newWidget("managed")); err != nil {
		return err
	}
	select {
	case err = <-reconciled:
	case <-ctx.Done():
		err = ctx.Err()
	}
	cancel()
	if stopErr := <-stopped; err == nil {
		err = stopErr
	}
	return err
}

func forbidden(ctx context.Context, s *suite) error {
	user, err := s.environment.AddUser(envtest.User{Name: "guest"}, nil)
	if err != nil {
		return err
	}
	c, err := client.New(user.Config(), client.Options{})
	if err != nil {
		return err
	}
	if err := c.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}); !apierrors.IsForbidden(err) {
		return fmt.Errorf("not forbidden: %v", err)
	}
	return nil
}

func terminating(ctx context.Context, s *suite) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
	if err := s.client.Create(ctx, namespace); err != nil {
		return err
	}
	if err := s.client.Delete(ctx, namespace); err != nil {
		return err
	}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
		return err
	}
	if namespace.Status.Phase != corev1.NamespaceTerminating {
		return fmt.Errorf("the phase is %s", namespace.Status.Phase)
	}
	return nil
}

func restart(ctx context.Context, s *suite) error {
	server := s.environment.ControlPlane.GetAPIServer()
	if err := s.client.Create(ctx, newWidget("kept")); err != nil {
		return err
	}
	if err := server.Stop(); err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	user, err := s.environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	c, err := client.New(user.Config(), client.Options{})
	if err != nil {
		return err
	}
	return c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "kept"}, newWidget("kept"))
}
