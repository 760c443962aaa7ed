package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// target is a port that the doctor looks at, step by step: the first that fails is the last.
type target struct {
	doctor              *doctor
	role, name, address string
	// advertised says that the address is the port's own word, and awayFrom that the fleet is not on this machine.
	advertised, awayFrom bool

	findings  []finding
	elsewhere bool      // the port is on another machine
	asksBack  bool      // it asks for a certificate of ours
	fleet     *pb.Fleet // as a master tells
	leads     bool
	leader    string // the address that the leader advertises
}

// add takes one step and reports whether the next one makes sense.
func (t *target) add(ctx context.Context, step string, look func(context.Context) finding) bool {
	ctx, cancel := context.WithTimeout(ctx, t.doctor.timeout)
	defer cancel()
	began := time.Now()
	f := look(ctx)
	f.Target, f.Step, f.Ms = t.label(), step, float64(time.Since(began).Microseconds())/1000
	t.findings = append(t.findings, f)
	return f.State != failure
}

// label is what people call it: a name says nothing new where it is made of role and address.
func (t *target) label() string {
	parts := []string{t.role, t.name, t.address}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" || s == t.role+"-"+t.address }),
		" ")
}

// reach goes as far as the TLS handshake.
func (t *target) reach(ctx context.Context) bool {
	return t.add(ctx, "name", t.resolve) && t.add(ctx, "connect", t.connect) && t.add(ctx, "tls", t.handshake)
}

// askMaster looks at a master.
func (t *target) askMaster(ctx context.Context) {
	if !t.reach(ctx) {
		return
	}
	conn, err := rpc.Dial(t.address, t.doctor.rpc)
	if err != nil {
		t.add(ctx, "call", func(context.Context) finding { return t.explain(err) })
		return
	}
	defer conn.Close()
	m := pb.NewMasterClient(conn)
	if !t.add(ctx, "call", func(ctx context.Context) finding { return t.askFleet(ctx, m) }) {
		return
	}
	if t.add(ctx, "leader", func(ctx context.Context) finding { return t.askLeader(ctx, m) }) && t.leads &&
		t.doctor.session != "" {
		t.add(ctx, "session", func(ctx context.Context) finding { return t.askSession(ctx, m) })
	}
}

// askWorker looks at a worker of the fleet.
func (t *target) askWorker(ctx context.Context, member *pb.FleetMember) {
	if !t.reach(ctx) {
		return
	}
	conn, err := rpc.Dial(t.address, t.doctor.rpc.Anonymous())
	if err != nil {
		t.add(ctx, "health", func(context.Context) finding { return t.explain(err) })
		return
	}
	defer conn.Close()
	if t.add(ctx, "health", func(ctx context.Context) finding { return t.askHealth(ctx, conn, member) }) {
		t.add(ctx, "flight", func(ctx context.Context) finding { return t.askStream(ctx, conn) })
	}
}

func (t *target) resolve(ctx context.Context) finding {
	host, _, err := net.SplitHostPort(t.address)
	if err != nil {
		return fail(err.Error(), "an address is HOST:PORT; masters listen on port 7070 by default")
	}
	if t.awayFrom && isLoopback(host) {
		return fail("it advertises an address that means this machine here, but it runs on another", t.readvertise())
	}
	if net.ParseIP(host) != nil {
		return good("an IP address")
	}
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fail("no host has this name",
			cmp.Or(t.readvertise(),
				"check the spelling, and whether this machine's DNS knows the name; in Kubernetes it is "+
					"SERVICE.NAMESPACE"))
	case err != nil:
		return fail(err.Error(), "this machine's DNS does not answer; check its settings, or give an IP address")
	}
	return good("%s", strings.Join(found, ", "))
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readvertise is what to do about an address that is the port's own word, "" if it is not.
func (t *target) readvertise() string {
	if !t.advertised {
		return ""
	}
	return fmt.Sprintf(
		"the %s says of itself that it is at %s; if it runs, start it with --advertise and an address that trainers "+
			"can reach", t.role, t.address)
}

func (t *target) connect(ctx context.Context) finding {
	conn, err := rpc.Connect(ctx, t.address)
	proxy := rpc.UnusedProxy(t.address)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail("connection refused: nothing listens there", cmp.Or(t.readvertise(), rpc.StartMaster)+suffix(proxy))
	case isTimeout(err):
		return fail(fmt.Sprintf("no answer within %v", t.doctor.timeout), cmp.Or(t.readvertise(),
			"a firewall or network policy may drop the packets, or the address is one of another network, as a "+
				"pod's is outside of its cluster")+
			suffix(proxy))
	case err != nil:
		return fail(err.Error(), cmp.Or(t.readvertise(), "check the route from here to there"))
	}
	defer conn.Close()
	// Who calls himself does so from the address that he calls.
	local, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	remote, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	t.elsewhere = local != remote && !isLoopback(remote)
	return good("from %s to %s%s", local, conn.RemoteAddr(), suffix(proxy))
}

// suffix is a note that stands after other words, if there is one.
func suffix(note string) string {
	if note == "" {
		return ""
	}
	return "; " + note
}

func (t *target) handshake(ctx context.Context) finding {
	shown, err := rpc.Handshake(ctx, t.address, t.doctor.rpc)
	var plain tls.RecordHeaderError
	var untrusted *tls.CertificateVerificationError
	switch {
	case err == nil && shown == nil:
		return good("plain text, since none of --tls, --tls-ca and --tls-cert is set")
	case err == nil:
		t.asksBack = shown.AsksBack
		c := shown.PeerCertificates[0]
		return good("%s; its certificate is for %s, by %s, and ends %s", tls.VersionName(shown.Version), namesOf(c),
			issuerOf(c), humanize.Time(c.NotAfter))
	case errors.As(err, &plain):
		return fail("it does not speak TLS",
			"leave out --tls, --tls-ca and --tls-cert, or start it with --tls-cert and --tls-key")
	case errors.As(err, &untrusted) && len(untrusted.UnverifiedCertificates) > 0:
		return t.untrusted(untrusted.UnverifiedCertificates[0], untrusted.Err)
	case isTimeout(err):
		return t.silent()
	}
	words := strings.TrimPrefix(err.Error(), "rpc: dial: ")
	return cut(strings.TrimPrefix(words, "rpc: handshake with "+t.address+": "), whosePort)
}

// untrusted says what is wrong with a certificate.
func (t *target) untrusted(c *x509.Certificate, err error) finding {
	host, _, _ := net.SplitHostPort(t.address) // a handshake was made with it
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return fail(fmt.Sprintf("its certificate is for %s, not for %s", namesOf(c), host),
			cmp.Or(t.readvertise(),
				"use one of these names")+", or --tls-server-name; or give it a certificate that names "+host)
	case errors.As(err, &authority):
		return fail(fmt.Sprintf("its certificate, for %s, is by %s, whom this command does not trust",
			namesOf(c), issuerOf(c)),
			"--tls-ca (PENSTOCK_TLS_CA) must name the file with that authority")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && time.Now().Before(c.NotBefore):
		return fail(fmt.Sprintf("its certificate begins %s, at %s",
			humanize.Time(c.NotBefore), c.NotBefore.Format(time.RFC3339)),
			"check this machine's clock, and that of the authority")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fail(fmt.Sprintf("its certificate expired %s, at %s",
			humanize.Time(c.NotAfter), c.NotAfter.Format(time.RFC3339)),
			"renew the files of its --tls-cert and --tls-key; it reads them anew for each connection. Or this "+
				"machine's clock is wrong")
	}
	return fail(fmt.Sprintf("its certificate, for %s, is not good: %v", namesOf(c), err), "give it another certificate")
}

func namesOf(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return cmp.Or(strings.Join(names, ", "), "no name")
}

func issuerOf(c *x509.Certificate) string { return cmp.Or(c.Issuer.CommonName, c.Issuer.String()) }

func (t *target) silent() finding {
	return fail(fmt.Sprintf("it takes connections, but does not answer within %v", t.doctor.timeout),
		"the process hangs, is stopped, or has no CPU to run on; look at its log and its machine, and start it again")
}

func (t *target) askFleet(ctx context.Context, m pb.MasterClient) finding {
	fleet, err := m.GetFleet(ctx, &pb.GetFleetRequest{})
	if err != nil {
		return t.explain(err)
	}
	t.fleet = fleet
	if t.doctor.rpc.Token.IsZero() {
		return good("it answers without a token")
	}
	who, err := m.WhoAmI(ctx, &pb.WhoAmIRequest{})
	if status.Code(err) == codes.Unimplemented { // a master of an earlier release
		return good("it takes the token")
	}
	if err != nil {
		return t.explain(err)
	}
	return good("it takes the token: %s", describe(who))
}

// describe says in words whose token it is, and what it opens.
func describe(who *pb.Caller) string {
	where := "namespace " + who.GetNamespace()
	if who.GetEverywhere() {
		where = "all namespaces"
	}
	reads := "anything"
	if !who.GetUnlimited() {
		reads = cmp.Or(strings.Join(who.GetDatasets(), ", "), "nothing")
	}
	runs := ""
	switch code := who.GetCode(); code {
	case "": // of an earlier release
	case "none":
		runs = "; sessions there may have no Python functions"
	default:
		runs = "; sessions there may have Python functions " + code
	}
	return fmt.Sprintf("%q has roles %s in %s, and may read %s%s", who.GetSubject(),
		strings.Join(who.GetRoles(), ", "), where, reads, runs)
}

// askLeader asks after a session, since only the leader knows of them.
func (t *target) askLeader(ctx context.Context, m pb.MasterClient) finding {
	_, err := m.GetSession(ctx, &pb.GetSessionRequest{})
	if t.leader = rpc.Leader(err); t.leader != "" {
		if t.role == "leader" {
			return fail("it does not lead; "+t.leader+" does",
				"run this again, since the leadership may just have changed")
		}
		return good("it does not lead; %s does", t.leader)
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return fail(status.Convert(err).Message(),
			"if it stays so, the masters' logs say why: perhaps they do not reach etcd")
	case codes.DeadlineExceeded:
		return t.silent()
	}
	t.leads, t.leader = true, t.fleet.GetLeader()
	return good("it leads")
}

func (t *target) askSession(ctx context.Context, m pb.MasterClient) finding {
	s, err := m.GetSession(ctx, &pb.GetSessionRequest{Session: t.doctor.session})
	switch {
	case err != nil:
		return t.explain(err)
	case s.GetFailure() != "":
		return fail(fmt.Sprintf("session %s failed: %s", s.GetId(), s.GetFailure()),
			"repair what it names, and open another session, or delete this one first")
	}
	present := 0
	for _, r := range s.GetProgress().GetRanks() {
		if r.GetPresent() {
			present++
		}
	}
	return good("session %s is %s, with %d of %d trainers", s.GetId(), strings.ToLower(s.GetState().String()), present,
		s.GetWorldSize())
}

func (t *target) askHealth(ctx context.Context, conn *grpc.ClientConn, member *pb.FleetMember) finding {
	reply, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	switch {
	case err != nil:
		return t.explain(err)
	case member.GetDraining():
		return finding{State: warning, Seen: "it drains: it takes no new streams"}
	case reply.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		return fail("it is up, but no master has answered it yet",
			"it must reach the masters where they say they are, with the same --token-file and --tls-ca; its log "+
				"says more with --log-level debug")
	}
	return good("it serves, with %s", english.Plural(int(member.GetSlots()), "slot", ""))
}

// askStream sees whether streams can be had: a worker refuses a ticket that is none; others do not know the call.
func (t *target) askStream(ctx context.Context, conn *grpc.ClientConn) finding {
	stream, err := flight.NewClientFromConn(conn, nil).DoGet(ctx, &flight.Ticket{})
	if err == nil {
		_, err = stream.Recv()
	}
	if code := status.Code(err); code == codes.PermissionDenied || code == codes.InvalidArgument {
		return good("it serves streams to whoever has a ticket")
	}
	return t.explain(err)
}

// explain says what to do about a call that failed, though the connection was made.
func (t *target) explain(err error) finding {
	st := status.Convert(err)
	switch {
	case st.Code() == codes.DeadlineExceeded:
		return t.silent()
	case st.Code() == codes.Unimplemented && t.role != "worker":
		return cut("it is no master, or one of another release: "+st.Message()+rpc.NextStep(err),
			"bring all to one release")
	case st.Code() == codes.Unimplemented:
		return fail("it is no worker: "+st.Message(), cmp.Or(t.readvertise(), "name a worker's port"))
	case st.Code() == codes.Unavailable && t.asksBack: // the alert itself may be lost with the connection
		return fail("it asks its callers for a certificate, and does not take what this command shows",
			"set --tls-cert and --tls-key to one by an authority of its --tls-client-ca")
	case t.role == "master" && rpc.NextStep(err) != "":
		return cut(st.Message()+rpc.NextStep(err), "")
	}
	next := "look at its log"
	if st.Code() == codes.Unavailable {
		next = whosePort
	}
	return cut(st.Message(), next)
}

const whosePort = "see whether this is a Penstock port at all: gossip has ports of its own, and a proxy may stand " +
	"between"

// cut is a failure whose words may hold the next step already, after a semicolon.
func cut(words, otherwise string) finding {
	seen, next, _ := strings.Cut(words, "; ")
	return fail(seen, cmp.Or(next, otherwise))
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
