// Package validate decodes the manifests of deploy strictly into the types of their APIs. It is a module of its
// own, so that Byline does not depend on these types.
package validate

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

// manifests are the objects of deploy/kubernetes, one of each kind.
type manifests struct {
	account    core.ServiceAccount
	config     core.ConfigMap
	deployment apps.Deployment
	service    core.Service
	budget     policy.PodDisruptionBudget
	monitor    monitoring.ServiceMonitor
	ingress    networking.Ingress
}

func read(t *testing.T) manifests {
	t.Helper()
	var m manifests
	kinds := map[meta.TypeMeta]any{
		{APIVersion: "v1", Kind: "ServiceAccount"}:                       &m.account,
		{APIVersion: "v1", Kind: "ConfigMap"}:                            &m.config,
		{APIVersion: "apps/v1", Kind: "Deployment"}:                      &m.deployment,
		{APIVersion: "v1", Kind: "Service"}:                              &m.service,
		{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:           &m.budget,
		{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}:            &m.ingress,
		{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}: &m.monitor,
	}
	files, err := filepath.Glob("../kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(content))); ; {
			b := make([]byte, len(content))
			n, err := documents.Read(b)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var kind meta.TypeMeta
			if err := strict.Unmarshal(b[:n], &kind); err != nil {
				t.Fatal(err)
			}
			object := kinds[kind]
			delete(kinds, kind)
			if object == nil {
				t.Fatalf("%s: an unknown or a second %v", file, kind)
			}
			if err := strict.UnmarshalStrict(b[:n], object); err != nil {
				t.Errorf("%s: %v: %v", file, kind, err)
			}
		}
	}
	for kind := range kinds {
		t.Errorf("no %v", kind)
	}
	return m
}

// TestKubernetes_ReferencesMatch: selectors, names and ports match the objects that they refer to.
func TestKubernetes_ReferencesMatch(t *testing.T) {
	m := read(t)
	pods := labels.Set(m.deployment.Spec.Template.Labels)
	for what, s := range map[string]*meta.LabelSelector{
		"deployment": m.deployment.Spec.Selector,
		"budget":     m.budget.Spec.Selector,
		"spread":     m.deployment.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector,
		"service":    {MatchLabels: m.service.Spec.Selector},
	} {
		if selector, err := meta.LabelSelectorAsSelector(s); err != nil || selector.Empty() || !selector.Matches(pods) {
			t.Errorf("%s does not select the pods: %v", what, err)
		}
	}
	if selector,
		err := meta.LabelSelectorAsSelector(&m.monitor.Spec.Selector); err != nil || selector.Empty() ||
		!selector.Matches(labels.Set(m.service.Labels)) {
		t.Errorf("the monitor does not select the service: %v", err)
	}
	if job := m.service.Labels[m.monitor.Spec.JobLabel]; job != "byline" {
		t.Errorf("the job is %q", job)
	}
	spec := m.deployment.Spec.Template.Spec
	c := spec.Containers[0]
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	var served []string
	for _, p := range m.service.Spec.Ports {
		served = append(served, p.Name)
		if !slices.Contains(ports, p.TargetPort.StrVal) {
			t.Errorf("no port %s", p.TargetPort.StrVal)
		}
	}
	if p := m.monitor.Spec.Endpoints[0].Port; !slices.Contains(served, p) {
		t.Errorf("the service has no port %s", p)
	}
	backend := m.ingress.Spec.Rules[0].HTTP.Paths[0].Backend.Service
	if backend.Name != m.service.Name || !slices.Contains(served, backend.Port.Name) {
		t.Errorf("the ingress routes to port %q of the service %q", backend.Port.Name, backend.Name)
	}
	if tls := m.ingress.Spec.TLS; len(tls) != 1 || !slices.Equal(tls[0].Hosts, []string{m.ingress.Spec.Rules[0].Host}) {
		t.Errorf("the ingress has certificates for %v", tls)
	}
	for _, p := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if !slices.Contains(ports, p.HTTPGet.Port.StrVal) {
			t.Errorf("no port %s", p.HTTPGet.Port.StrVal)
		}
	}
	if spec.ServiceAccountName != m.account.Name || c.EnvFrom[0].ConfigMapRef.Name != m.config.Name {
		t.Errorf("account %s, configuration %s", spec.ServiceAccountName, c.EnvFrom[0].ConfigMapRef.Name)
	}
}

// TestKubernetes_TimeToStop: a stopping pod has the grace period that docs/operations.md requires, and drains for
// longer than its probe takes to fail.
func TestKubernetes_TimeToStop(t *testing.T) {
	m := read(t)
	drain, err := time.ParseDuration(m.config.Data["BYLINE_DRAIN"])
	if err != nil {
		t.Fatal(err)
	}
	spec := m.deployment.Spec.Template.Spec
	if grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second; grace < drain+20*time.Second {
		t.Errorf("%s to stop, but %s to drain", grace, drain)
	}
	probe := spec.Containers[0].ReadinessProbe
	const threshold = 3 // the default of Kubernetes
	if notice := time.Duration(probe.PeriodSeconds) * time.Second * threshold; drain <= notice {
		t.Errorf("%s to drain, but %s to notice", drain, notice)
	}
}
