// Package setpoint gives each test a cluster of its own: a fork of the one that KUBECONFIG names, which a Setpoint server
// serves. Run the tests with
//
//	setpoint test --crds config/crd/bases -- go test ./...
package setpoint

import (
	"context"
	"encoding/json"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Fork creates a cluster with the objects that the server's own cluster has now. It is deleted when the test ends.
func Fork(t *testing.T) *rest.Config {
	t.Helper()
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	host, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	api := discovery.NewDiscoveryClientForConfigOrDie(host).RESTClient()
	body, err := api.Post().AbsPath("/clusters/root/fork").Do(t.Context()).Raw()
	if err != nil {
		t.Fatalf("cannot fork the cluster: %v: %s", err, body)
	}
	var cluster struct{ Name, Kubeconfig string }
	if err := json.Unmarshal(body, &cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete().AbsPath("/clusters", cluster.Name).Do(context.Background()).Error(); err != nil {
			t.Errorf("cannot delete cluster %s: %v", cluster.Name, err)
		}
	})
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(cluster.Kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	return config
}
