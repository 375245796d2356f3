// The newest etcd, for the tests of the store on etcd: one member, with etcd's own flags, until it is terminated. Debian has
// an older one.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/pkg/v3/flags"
	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	config, printsVersion, err := parse(arguments)
	if err != nil {
		return err
	}
	if printsVersion {
		fmt.Println("etcd Version:", version.Version)
		return nil
	}
	member, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer member.Close()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-signals:
		return nil
	case err := <-member.Err():
		return err
	}
}

// parse reads the flags of etcd. The values of some are not set by their flag but read from it.
func parse(arguments []string) (*embed.Config, bool, error) {
	config := embed.NewConfig()
	set := flag.NewFlagSet("etcd", flag.ContinueOnError)
	config.AddFlags(set)
	printsVersion := set.Bool("version", false, "Print the version and exit.")
	if err := set.Parse(arguments); err != nil {
		return nil, false, err
	}
	config.ListenPeerUrls = flags.UniqueURLsFromFlag(set, "listen-peer-urls")
	config.ListenClientUrls = flags.UniqueURLsFromFlag(set, "listen-client-urls")
	config.AdvertisePeerUrls = flags.UniqueURLsFromFlag(set, "initial-advertise-peer-urls")
	config.AdvertiseClientUrls = flags.UniqueURLsFromFlag(set, "advertise-client-urls")
	return config, *printsVersion, config.Validate()
}
