package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// hubHost is this program's address in the network of all processes.
	hubHost = "10.77.0.1"
	// commandTimeout bounds a call of ip or nft.
	commandTimeout = 20 * time.Second
	// lost is how many of a hundred packets a lossy network loses, each way.
	lost = 5
)

// lan is a network of one namespace for each process, on a bridge in this program's namespace. Many goroutines may call
// its methods, for different processes.
type lan struct {
	hosts map[string]string // IP addresses by process
}

// newLAN makes the network, in a namespace that has none yet.
func newLAN(ctx context.Context, names []string) (*lan, error) {
	// Namespaces are named by files; those made here are nobody else's.
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return nil, err
	}
	if err := mountTmpfs("/run/netns", 1<<20); err != nil {
		return nil, err
	}
	n := &lan{hosts: map[string]string{}}
	script := "link set lo up\nlink add bridge type bridge\naddr add " + hubHost +
		"/24 dev bridge\nlink set bridge up\n"
	for i, name := range names {
		n.hosts[name] = fmt.Sprintf("10.77.0.%d", i+2)
		script += fmt.Sprintf(
			"netns add %s\nlink add port%d type veth peer name eth0 netns %s\nlink set port%d master bridge up\n",
			name, i, name, i)
	}
	if err := ipTool(ctx, script, "-batch", "-"); err != nil {
		return nil, err
	}
	for name, host := range n.hosts {
		inside := fmt.Sprintf("addr add %s/24 dev eth0\nlink set eth0 up\nlink set lo up\n", host)
		if err := ipTool(ctx, inside, "-n", name, "-batch", "-"); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// enter is the command that runs another one as a process of the network; it replaces itself by that.
func (n *lan) enter(name string) []string { return []string{"ip", "netns", "exec", name} }

// cut drops all packets between a process and others; no others are everybody.
func (n *lan) cut(ctx context.Context, name string, others []string) error {
	from, to := "", ""
	if len(others) > 0 {
		hosts := make([]string, len(others))
		for i, o := range others {
			hosts[i] = n.hosts[o]
		}
		set := "{ " + strings.Join(hosts, ", ") + " }"
		from, to = "ip saddr "+set, "ip daddr "+set
	}
	return n.filter(ctx, name, from+" drop", to+" drop")
}

// lose drops some packets of a process.
func (n *lan) lose(ctx context.Context, name string) error {
	some := fmt.Sprintf("numgen random mod 100 < %d drop", lost)
	return n.filter(ctx, name, some, some)
}

func (n *lan) filter(ctx context.Context, name, in, out string) error {
	const chain = "chain %s { type filter hook %s priority 0; policy accept; %s lo accept; %s; }\n"
	rules := "table inet chaos {\n" + fmt.Sprintf(chain, "in", "input", "iif", in) +
		fmt.Sprintf(chain, "out", "output", "oif", out) + "}\n"
	return ipTool(ctx, rules, "netns", "exec", name, "nft", "-f", "-")
}

// heal takes back what cut or lose did.
func (n *lan) heal(ctx context.Context, name string) error {
	return ipTool(ctx, "", "netns", "exec", name, "nft", "delete", "table", "inet", "chaos")
}

// ipTool runs ip with an input.
func ipTool(ctx context.Context, input string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
