// Package kubernetes tests the manifests without a cluster; bench/kubernetes tests them on one.
package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/penstock-ml/penstock/master/access"
	mastercommand "github.com/penstock-ml/penstock/master/command"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/transform"
)

// manifests are what `kubectl apply -k` takes, and whether they run a fleet.
var manifests = map[string]bool{
	".": true, "laptop": true, "production": true, "../together": true, "../python": true, "../sidecar": true,
	"example": false,
}

// overlays are those of users: all components at once, but that functions run in the workers' image or beside it.
var overlays = map[string]string{
	"../together/kustomization.yaml": `
resources: [../kubernetes]
components: [../kubernetes/zones, ../kubernetes/outside, ../kubernetes/minio]
`,
	"../python/kustomization.yaml":  "resources: [../kubernetes/production]\ncomponents: [../kubernetes/python]" + functions,
	"../sidecar/kustomization.yaml": "resources: [../kubernetes/production]\ncomponents: [../kubernetes/sidecar]" + functions,
}

// functions is what users say of them.
const functions = `
images: [{name: penstock-python, newName: registry/ours, newTag: v7}]
configMapGenerator:
  - name: penstock-worker-settings
    namespace: penstock
    behavior: merge
    literals: ["PENSTOCK_PYTHON_MODULES=default=ours.features,ours.text"]
`

// TestManifests holds of each overlay that the API knows every field, and what else every object must keep.
func TestManifests(t *testing.T) {
	dir := withKeys(t)
	for overlay, fleet := range manifests {
		t.Run(overlay, func(t *testing.T) {
			objects := build(t, filepath.Join(dir, overlay))
			templates := 0
			for _, o := range objects {
				if name, namespace, pods, ok := template(o); ok {
					templates++
					checkPods(t, name, pods)
					if fleet {
						checkReferences(t, objects, name, namespace, pods)
					}
					for _, c := range slices.Concat(pods.Spec.InitContainers, pods.Spec.Containers) {
						checkSettings(t, objects, name, c)
					}
				}
			}
			if templates == 0 {
				t.Error("no pods")
			}
			for _, o := range objects {
				checkSelectors(t, objects, o)
			}
		})
	}
}

// withKeys is a copy of the manifests with keys, as docs/how-to/production-kubernetes.md has it.
func withKeys(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kubernetes")
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	for path, text := range overlays {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := mastercommand.Keys()
	cmd.SetOut(t.Output())
	cmd.SetArgs([]string{filepath.Join(dir, "keys")})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// build is `kubectl kustomize`, decoded as strictly as the API server does on demand.
func build(t *testing.T, dir string) []runtime.Object {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	var out []runtime.Object
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := strict.Decode(text, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", r.CurId(), err)
			continue
		}
		out = append(out, o)
	}
	return out
}

// template is what an object makes pods of.
func template(o runtime.Object) (name, namespace string, pods corev1.PodTemplateSpec, ok bool) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return o.Name, o.Namespace, o.Spec.Template, true
	case *appsv1.StatefulSet:
		return o.Name, o.Namespace, o.Spec.Template, true
	case *batchv1.Job:
		return o.Name, o.Namespace, o.Spec.Template, true
	}
	return "", "", pods, false
}

// checkPods holds that pods take no rights that they do not need, say what they need, and that their health is looked
// at.
func checkPods(t *testing.T, name string, pods corev1.PodTemplateSpec) {
	t.Helper()
	s := pods.Spec.SecurityContext
	switch {
	case s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0:
		t.Errorf("%s: its user may be root", name)
	case s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Errorf("%s: no seccomp profile", name)
	}
	if pods.Spec.EnableServiceLinks == nil || *pods.Spec.EnableServiceLinks {
		t.Errorf("%s: variables of Services may be taken for settings", name)
	}
	if pods.Spec.HostNetwork || pods.Spec.HostPID || pods.Spec.HostIPC {
		t.Errorf("%s: it shares namespaces with its host", name)
	}
	for _, v := range pods.Spec.Volumes {
		if v.HostPath != nil {
			t.Errorf("%s: volume %s is a path of the host", name, v.Name)
		}
	}
	for _, c := range slices.Concat(pods.Spec.InitContainers, pods.Spec.Containers) {
		s := c.SecurityContext
		switch {
		case s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Privileged != nil &&
			*s.Privileged:
			t.Errorf("%s/%s: it may gain rights", name, c.Name)
		case s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem:
			t.Errorf("%s/%s: its root file system can be written", name, c.Name)
		case s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
			len(s.Capabilities.Add) > 0:
			t.Errorf("%s/%s: it has capabilities", name, c.Name)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() ||
			c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s/%s: no CPU or memory is asked for, or no limit of memory is set", name, c.Name)
		}
		sidecar := c.RestartPolicy != nil && c.StartupProbe != nil // others wait for it, and it ends if it fails
		if pods.Spec.RestartPolicy != corev1.RestartPolicyNever && !sidecar &&
			(c.ReadinessProbe == nil || c.LivenessProbe == nil) {
			t.Errorf("%s/%s: its health is not looked at", name, c.Name)
		}
	}
}

// checkReferences holds that what pods name is in the same manifest.
func checkReferences(t *testing.T, objects []runtime.Object, name, namespace string, pods corev1.PodTemplateSpec) {
	t.Helper()
	needs := func(kind, named string, optional *bool) {
		t.Helper()
		found := slices.ContainsFunc(objects, func(o runtime.Object) bool {
			switch o := o.(type) {
			case *corev1.Secret:
				return kind == "Secret" && o.Name == named && o.Namespace == namespace
			case *corev1.ConfigMap:
				return kind == "ConfigMap" && o.Name == named && o.Namespace == namespace
			case *corev1.ServiceAccount:
				return kind == "ServiceAccount" && o.Name == named && o.Namespace == namespace
			case *corev1.PersistentVolumeClaim:
				return kind == "PersistentVolumeClaim" && o.Name == named && o.Namespace == namespace
			}
			return false
		})
		if !found && (optional == nil || !*optional) {
			t.Errorf("%s: there is no %s %s", name, kind, named)
		}
	}
	if account := pods.Spec.ServiceAccountName; account != "" {
		needs("ServiceAccount", account, nil)
	}
	for _, v := range pods.Spec.Volumes {
		switch {
		case v.Secret != nil:
			needs("Secret", v.Secret.SecretName, v.Secret.Optional)
		case v.ConfigMap != nil:
			needs("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
		case v.PersistentVolumeClaim != nil:
			needs("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName, nil)
		}
	}
	for _, c := range pods.Spec.Containers {
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil {
				needs("Secret", e.SecretRef.Name, e.SecretRef.Optional)
			} else {
				needs("ConfigMap", e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				needs("Secret", e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Optional)
			}
		}
	}
}

// variable is one that Kubernetes puts into arguments.
var variable = regexp.MustCompile(`\$\(([A-Z_]+)\)`)

// checkSettings holds that penstock takes the arguments, and knows the settings in the environment.
func checkSettings(t *testing.T, objects []runtime.Object, name string, c corev1.Container) {
	t.Helper()
	if !slices.Contains([]string{"master", "worker", "python"}, c.Name) {
		return
	}
	commands := map[string]*cobra.Command{
		"python-host": workercommand.PythonHost(),
		"master":      mastercommand.Master(transform.Builtin(), "test"), "worker": workercommand.Worker(transform.Builtin(),
			"test"),
	}
	cmd := commands[c.Args[0]]
	if cmd == nil {
		t.Errorf("%s: penstock has no such command: %s", name, c.Args[0])
		return
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	for _, from := range c.EnvFrom {
		for _, o := range objects {
			if m, ok := o.(*corev1.ConfigMap); ok && from.ConfigMapRef != nil && m.Name == from.ConfigMapRef.Name {
				for k, v := range m.Data {
					env[k] = v
				}
			}
		}
	}
	var args []string
	for _, arg := range c.Args[1:] {
		args = append(args, variable.ReplaceAllStringFunc(arg, func(v string) string {
			key := variable.FindStringSubmatch(v)[1]
			if _, ok := env[key]; !ok {
				t.Errorf("%s: %s: there is no %s", name, arg, key)
			}
			return map[string]string{"MEMORY_LIMIT": "1073741824"}[key]
		}))
	}
	if limit, err := resource.ParseQuantity(strings.TrimSuffix(env["GOMEMLIMIT"], "B")); c.Args[0] == "master" &&
		(err != nil || limit.Value() > c.Resources.Limits.Memory().Value()*15/16 ||
			limit.Value() < c.Resources.Limits.Memory().Value()*3/4) {
		t.Errorf("%s: GOMEMLIMIT is %q, and its container may have %v",
			name, env["GOMEMLIMIT"], c.Resources.Limits.Memory())
	}
	for key, value := range env {
		if setting, ok := strings.CutPrefix(key, "PENSTOCK_"); ok && !strings.HasPrefix(setting, "STORAGE_") {
			args = append(args, fmt.Sprintf("--%s=%s", strings.ToLower(strings.ReplaceAll(setting, "_", "-")), value))
		}
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// checkSelectors holds that what selects pods selects some, and that ports have the names by which they are called.
func checkSelectors(t *testing.T, objects []runtime.Object, o runtime.Object) {
	t.Helper()
	chosen := func(kind, name string, selector labels.Selector) (ports []corev1.ContainerPort) {
		t.Helper()
		n := 0
		for _, other := range objects {
			if _, _, pods, ok := template(other); ok && selector.Matches(labels.Set(pods.Labels)) {
				n++
				for _, c := range pods.Spec.Containers {
					ports = append(ports, c.Ports...)
				}
			}
		}
		if n == 0 {
			t.Errorf("%s %s selects no pods", kind, name)
		}
		return ports
	}
	has := func(ports []corev1.ContainerPort, name string) bool {
		return slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	}
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		if !slices.ContainsFunc(objects, func(other runtime.Object) bool { return claims(other, o.Name) }) {
			t.Errorf("PersistentVolumeClaim %s: no pod keeps anything there", o.Name)
		}
	case *corev1.Service:
		ports := chosen("Service", o.Name, labels.SelectorFromSet(o.Spec.Selector))
		for _, p := range o.Spec.Ports {
			if !has(ports, p.TargetPort.StrVal) {
				t.Errorf("Service %s: no container has port %s", o.Name, p.TargetPort.StrVal)
			}
		}
	case *rbacv1.Role: // kustomize may take a name for that of a generated object
		for _, rule := range o.Rules {
			for _, named := range rule.ResourceNames {
				if !slices.ContainsFunc(objects,
					func(other runtime.Object) bool {
						d, ok := other.(*appsv1.Deployment)
						return ok &&
							d.Name == named
					}) {
					t.Errorf("Role %s: there is no Deployment %s", o.Name, named)
				}
			}
		}
	case *policyv1.PodDisruptionBudget:
		chosen("PodDisruptionBudget", o.Name, labels.SelectorFromSet(o.Spec.Selector.MatchLabels))
	case *networkingv1.NetworkPolicy:
		ports := chosen("NetworkPolicy", o.Name, labels.SelectorFromSet(o.Spec.PodSelector.MatchLabels))
		for _, rule := range o.Spec.Ingress {
			for _, p := range rule.Ports {
				if !has(ports, p.Port.StrVal) {
					t.Errorf("NetworkPolicy %s: no container has port %s", o.Name, p.Port)
				}
			}
		}
	}
}

// claims tells whether an object's pods use a volume claim.
func claims(o runtime.Object, claim string) bool {
	_, _, pods, _ := template(o)
	return slices.ContainsFunc(pods.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// TestProductionLimitsNamespaces holds that a fleet which many share grants no more than it says.
func TestProductionLimitsNamespaces(t *testing.T) {
	for _, o := range build(t, filepath.Join(withKeys(t), "production")) {
		c, ok := o.(*corev1.ConfigMap)
		if !ok || c.Name != "penstock-rights" {
			continue
		}
		rights, err := access.ParseNamespaces("namespaces.yaml", []byte(c.Data["namespaces.yaml"]))
		if err != nil || len(rights.Namespaces["training"].Datasets) == 0 {
			t.Errorf("%+v, %v", rights, err)
		}
		return
	}
	t.Error("there is no ConfigMap penstock-rights")
}

// TestProductionKeepsHistory holds that masters do not compact an etcd of others.
func TestProductionKeepsHistory(t *testing.T) {
	for _, o := range build(t, filepath.Join(withKeys(t), "production")) {
		if c, ok := o.(*corev1.ConfigMap); ok && strings.HasPrefix(c.Name, "penstock-master-settings") &&
			c.Data["PENSTOCK_ETCD_COMPACT"] != "false" {
			t.Errorf("%v", c.Data)
		}
	}
}

// TestNoSecretsCommitted holds that keys come from `penstock keys` alone.
func TestNoSecretsCommitted(t *testing.T) {
	_, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), withoutKeys(t))
	if err == nil || !strings.Contains(err.Error(), "keys") {
		t.Errorf("without `penstock keys`: %v", err)
	}
}

// withoutKeys is a copy of what git holds of the manifests.
func withoutKeys(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "kubernetes")
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	ignored, err := os.ReadFile(filepath.Join("keys", ".gitignore"))
	if err != nil || !bytes.HasPrefix(ignored, []byte("*\n")) {
		t.Fatalf("keys/.gitignore lets keys pass: %q, %v", ignored, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(string(ignored), "!"+e.Name()+"\n") {
			if err := os.RemoveAll(filepath.Join(dir, "keys", e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// TestFunctionsBesideWorkers holds that users' images run functions, and that those beside workers can read nothing of
// the workers'.
func TestFunctionsBesideWorkers(t *testing.T) {
	dir := withKeys(t)
	for overlay, name := range map[string]string{"../python": "worker", "../sidecar": "python"} {
		var found *corev1.Container
		for _, o := range build(t, filepath.Join(dir, overlay)) {
			of, _, pods, ok := template(o)
			if !ok || of != "penstock-worker" {
				continue
			}
			for _, c := range slices.Concat(pods.Spec.InitContainers, pods.Spec.Containers) {
				if c.Name == name {
					found = &c
				}
			}
		}
		if found == nil || found.Image != "registry/ours:v7" {
			t.Fatalf("%s: %s is not of the users' image: %+v", overlay, name, found)
		}
		if name == "python" && (len(found.Env)+len(found.EnvFrom) > 0 || found.SecurityContext.RunAsUser == nil ||
			slices.ContainsFunc(found.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "fleet" })) {
			t.Errorf("it has the workers' user, keys or settings: %+v", found)
		}
	}
}
