package manifests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../../examples/kubernetes"

// kustomization and serviceMonitor are the parts in use of two kinds whose own modules are large.
type kustomization struct {
	metav1.TypeMeta

	Resources          []string
	ConfigMapGenerator []struct {
		Name string
		Envs []string
	}
	Images []struct{ Name, NewName, NewTag string }
}

type serviceMonitor struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		JobLabel  string
		Selector  metav1.LabelSelector
		Endpoints []struct {
			Port, Path, Interval string
			Authorization        struct{ Credentials corev1.SecretKeySelector }
		}
	}
}

// manifests is what is in each file.
type manifests struct {
	deployment appsv1.Deployment
	service    corev1.Service
	budget     policyv1.PodDisruptionBudget
	network    networkingv1.NetworkPolicy
	monitor    serviceMonitor
	kustomized kustomization
}

// load reads the files; a field that its kind does not have, or has in another form, fails the test.
func load(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{}
	into := map[string]any{
		"deployment.yaml": &m.deployment, "service.yaml": &m.service, "poddisruptionbudget.yaml": &m.budget,
		"networkpolicy.yaml": &m.network, "servicemonitor.yaml": &m.monitor, "kustomization.yaml": &m.kustomized,
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) != len(into) {
		t.Fatalf("%d files are known, there are %q: %v", len(into), files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		object := into[filepath.Base(file)]
		if object == nil {
			t.Errorf("%s is not known here", file)
			continue
		}
		if err := yaml.UnmarshalStrict(text, object); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	return m
}

func TestKinds(t *testing.T) {
	t.Parallel()
	m := load(t)
	for _, test := range []struct{ got, want metav1.TypeMeta }{
		{m.deployment.TypeMeta, metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}},
		{m.service.TypeMeta, metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}},
		{m.budget.TypeMeta, metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}},
		{m.network.TypeMeta, metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}},
		{m.monitor.TypeMeta, metav1.TypeMeta{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}},
		{m.kustomized.TypeMeta, metav1.TypeMeta{APIVersion: "kustomize.config.k8s.io/v1beta1", Kind: "Kustomization"}},
	} {
		if test.got != test.want {
			t.Errorf("%v, want %v", test.got, test.want)
		}
	}
}

// What the kustomization names is there, in it or in a line that waits to be taken in.
func TestKustomization(t *testing.T) {
	t.Parallel()
	m := load(t)
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`(?m)^  (?:# )?- (\w+\.yaml)`).FindAllStringSubmatch(string(text), -1)
	for _, name := range listed {
		if _, err := os.Stat(filepath.Join(folder, name[1])); err != nil {
			t.Error(err)
		}
	}
	if len(listed) != 5 || len(m.kustomized.Resources) != 3 {
		t.Errorf("lists %q and takes %q", listed, m.kustomized.Resources)
	}
	container := m.deployment.Spec.Template.Spec.Containers[0]
	if image := m.kustomized.Images[0].Name; image != container.Image {
		t.Errorf("renames image %s, the deployment has %s", image, container.Image)
	}
	generated := m.kustomized.ConfigMapGenerator[0]
	if ref := container.EnvFrom[0].ConfigMapRef; ref.Name != generated.Name || generated.Envs[0] != "dqbridge.env" {
		t.Errorf("makes %+v, the deployment wants %+v", generated, ref)
	}
}

// Every selector finds the pods, and ports are found by a name that the pods have.
func TestSelectorsFindThePods(t *testing.T) {
	t.Parallel()
	m := load(t)
	pod := m.deployment.Spec.Template
	for name, selector := range map[string]*metav1.LabelSelector{
		"deployment": m.deployment.Spec.Selector, "budget": m.budget.Spec.Selector, "network": &m.network.Spec.PodSelector,
		"hosts": pod.Spec.TopologySpreadConstraints[0].LabelSelector, "zones": pod.Spec.TopologySpreadConstraints[1].LabelSelector,
		"service": {MatchLabels: m.service.Spec.Selector},
	} {
		found, err := metav1.LabelSelectorAsMap(selector)
		if err != nil || len(found) == 0 {
			t.Errorf("%s: selects %v, %v", name, found, err)
		}
		for label, value := range found {
			if pod.Labels[label] != value {
				t.Errorf("%s: wants %s=%s, the pods have %q", name, label, value, pod.Labels[label])
			}
		}
	}
	for label, value := range m.monitor.Spec.Selector.MatchLabels {
		if m.service.Labels[label] != value {
			t.Errorf("the monitor wants %s=%s, the service has %q", label, value, m.service.Labels[label])
		}
	}
	port := pod.Spec.Containers[0].Ports[0].Name
	container := pod.Spec.Containers[0]
	for where, name := range map[string]string{
		"liveness": container.LivenessProbe.HTTPGet.Port.StrVal, "readiness": container.ReadinessProbe.HTTPGet.Port.StrVal,
		"service": m.service.Spec.Ports[0].TargetPort.StrVal, "network": m.network.Spec.Ingress[0].Ports[0].Port.StrVal,
	} {
		if name != port {
			t.Errorf("%s: port %q, the container has %q", where, name, port)
		}
	}
	if at := m.monitor.Spec.Endpoints[0].Port; at != m.service.Spec.Ports[0].Name {
		t.Errorf("monitor: port %q, the service has %q", at, m.service.Spec.Ports[0].Name)
	}
}

// A pod has no more rights than it needs.
func TestPodHasNoRights(t *testing.T) {
	t.Parallel()
	pod := load(t).deployment.Spec.Template.Spec
	container := pod.Containers[0].SecurityContext
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("service links would set unknown DQ_ variables")
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("a token of the cluster is mounted")
	}
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("runs as %+v", pod.SecurityContext)
	}
	if !*container.ReadOnlyRootFilesystem || *container.AllowPrivilegeEscalation || container.Capabilities.Drop[0] != "ALL" {
		t.Errorf("may do %+v", container)
	}
}

// One replica more than may be away, and time for the hooks.
func TestDisruptions(t *testing.T) {
	t.Parallel()
	m := load(t)
	spec := m.deployment.Spec
	if *spec.Replicas <= m.budget.Spec.MaxUnavailable.IntVal || spec.Strategy.RollingUpdate.MaxUnavailable.IntVal != 0 {
		t.Errorf("%d replicas, budget %v, strategy %+v", *spec.Replicas, m.budget.Spec.MaxUnavailable, spec.Strategy)
	}
	limits, requests := spec.Template.Spec.Containers[0].Resources.Limits, spec.Template.Spec.Containers[0].Resources.Requests
	if _, throttled := limits[corev1.ResourceCPU]; throttled || limits.Memory().Cmp(*requests.Memory()) < 0 {
		t.Errorf("limits %v, requests %v", limits, requests)
	}
}
