package storetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// memberEnv names the variable that makes a process a member.
const memberEnv = "STORETEST_ETCD_MEMBER"

// memberSpec is what a member is told.
type memberSpec struct {
	Name, Dir, Client, Peer, Cluster string
	Quota                            int64
}

// Main runs this process as a member, and ends it, if Start started it as one; else it returns at once.
func Main() {
	text, ok := os.LookupEnv(memberEnv)
	if !ok {
		return
	}
	var spec memberSpec
	err := json.Unmarshal([]byte(text), &spec)
	if err == nil {
		err = spec.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "storetest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run serves until standard input ends, which the parent holds open.
func (s memberSpec) run() error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ended:
	case err = <-etcd.Err():
	}
	etcd.Close()
	return err
}

func (s memberSpec) config() (*embed.Config, error) {
	client, err := url.Parse(s.Client)
	if err != nil {
		return nil, err
	}
	peer, err := url.Parse(s.Peer)
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.QuotaBackendBytes = s.Name, s.Dir, s.Quota
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = s.Cluster
	cfg.EnableGRPCGateway = false
	cfg.LogLevel = "warn"
	return cfg, nil
}

func quiet() *zap.Logger { return zap.NewNop() }
