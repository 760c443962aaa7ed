// Names is the DNS server of bench/kubernetes/cluster.sh, where a cluster would have CoreDNS: it answers queries of
// pods for Services by asking the API server each time.
//
//	names 10.99.0.1:53 https://10.99.0.1:16443 TOKEN
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: names ADDRESS API-URL API-TOKEN")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal("names: ", err)
	}
}

// names knows what Services there are.
type names struct {
	api, token string
	client     *http.Client
}

// serve answers on address (UDP) until ctx ends.
func serve(ctx context.Context, address, api, token string) error {
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp", address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the cluster is this machine's own
	n := &names{api: api, token: token, client: &http.Client{Timeout: 5 * time.Second, Transport: transport}}
	var all sync.WaitGroup
	defer all.Wait()
	for {
		query := make([]byte, 1500)
		size, from, err := conn.ReadFrom(query)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		all.Go(func() {
			answer, err := n.answer(ctx, query[:size])
			if err != nil {
				log.Print(err)
				return
			}
			_, _ = conn.WriteTo(answer, from) // who asked may be gone
		})
	}
}

// answer replies to one question; names that are no Services' do not exist.
func (n *names) answer(ctx context.Context, query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("a query of %d questions: %w", len(m.Questions), err)
	}
	q := m.Questions[0]
	addresses, err := n.lookup(ctx, strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")))
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	switch {
	case err != nil:
		m.RCode = dnsmessage.RCodeServerFailure
	case addresses == nil:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		for _, a := range addresses {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{
					Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
					TTL: 1,
				},
				Body: &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	return m.Pack()
}

// lookup returns a Service's addresses, or a pod's of a headless one; nil if there is no such name.
func (n *names) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	rest, ok := strings.CutSuffix(name, ".svc.cluster.local")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return nil, nil
	}
	host, service, namespace := "", parts[len(parts)-2], parts[len(parts)-1]
	if len(parts) == 3 {
		host = parts[0]
	}
	var s struct{ Spec struct{ ClusterIP string } }
	if found, err := n.get(ctx, fmt.Sprintf("/api/v1/namespaces/%s/services/%s", namespace, service), &s); err != nil ||
		!found {
		return nil, err
	}
	if s.Spec.ClusterIP != "None" {
		address, err := netip.ParseAddr(s.Spec.ClusterIP)
		return []netip.Addr{address}, err
	}
	var slices struct {
		Items []struct {
			Endpoints []struct {
				Addresses  []string
				Hostname   string
				Conditions struct{ Ready bool }
			}
		}
	}
	path := fmt.Sprintf(
		"/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?labelSelector=kubernetes.io/service-name=%s",
		namespace, service)
	if _, err := n.get(ctx, path, &slices); err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			if !e.Conditions.Ready || host != "" && host != e.Hostname {
				continue
			}
			for _, text := range e.Addresses {
				address, err := netip.ParseAddr(text)
				if err != nil {
					return nil, err
				}
				out = append(out, address)
			}
		}
	}
	return out, nil
}

// get reads an object of the API; false if it does not exist.
func (n *names) get(ctx context.Context, path string, into any) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.api+path, nil)
	if err != nil {
		return false, err
	}
	r.Header.Set("Authorization", "Bearer "+n.token)
	reply, err := n.client.Do(r)
	if err != nil {
		return false, err
	}
	defer reply.Body.Close()
	switch reply.StatusCode {
	case http.StatusOK:
		return true, json.NewDecoder(reply.Body).Decode(into)
	case http.StatusNotFound:
		return false, nil
	}
	return false, fmt.Errorf("GET %s: %s", path, reply.Status)
}
