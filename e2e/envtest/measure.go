package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Starts so many control planes of the programs in a directory at once, and prints how long it takes until a custom
// object is stored in each, and the memory of all their processes. envtest polls every 100 ms, first etcd and then
// kube-apiserver, so that 0.2 s is the least.
func measure(assets string, count int) error {
	environments := make([]*envtest.Environment, count)
	durations := make([]time.Duration, count)
	errors := make([]error, count)
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() {
			started := time.Now()
			environments[i], errors[i] = startOne(assets)
			durations[i] = time.Since(started)
		})
	}
	group.Wait()
	memory, processes := memoryOf(assets)
	for i := range count {
		if environments[i] != nil {
			group.Go(func() { _ = environments[i].Stop() })
		}
	}
	group.Wait()
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	sort.Slice(durations, func(a, b int) bool { return durations[a] < durations[b] })
	fmt.Printf("%s: %d at once, custom object stored after %v (median) to %v (last), %d processes, %d MB each control plane\n",
		assets, count, durations[count/2].Round(time.Millisecond), durations[count-1].Round(time.Millisecond),
		processes, memory/1024/count)
	return nil
}

func startOne(assets string) (*envtest.Environment, error) {
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDs:                     []*apiextensionsv1.CustomResourceDefinition{crd()},
		ControlPlaneStartTimeout: 5 * time.Minute,
	}
	config, err := environment.Start()
	if err != nil {
		return environment, err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return environment, err
	}
	return environment, c.Create(context.Background(), newWidget("first"))
}

// The proportional set size of all processes of the programs in a directory, in kB, and their number.
func memoryOf(assets string) (int, int) {
	sum, count := 0, 0
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		command, _ := os.ReadFile(file)
		if !strings.HasPrefix(string(command), assets+"/") {
			continue
		}
		rollup, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "smaps_rollup"))
		for _, line := range strings.Split(string(rollup), "\n") {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
				size, _ := strconv.Atoi(fields[1])
				sum += size
				count++
			}
		}
	}
	return sum, count
}
