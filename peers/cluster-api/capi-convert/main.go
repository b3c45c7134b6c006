// capi-convert converts Cluster API objects with upstream's own code, so that tests can compare ours with it.
//
// It reads one JSON object a line, in v1beta1 or v1beta2 of cluster.x-k8s.io or ipam.cluster.x-k8s.io, and answers
// with the object in the other version on one line, or with {"error": "..."}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	corev1beta2 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1beta1 "sigs.k8s.io/cluster-api/api/ipam/v1beta1"
	ipamv1beta2 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/conversion"
)

type convert func(line []byte) (any, error)

// via reads a From, converts it and returns the To with its type set.
func via[From, To any](apiVersion string, do func(context.Context, *From, *To) error) convert {
	return func(line []byte) (any, error) {
		from, to := new(From), new(To)
		if err := json.Unmarshal(line, from); err != nil {
			return nil, err
		}
		if err := do(context.Background(), from, to); err != nil {
			return nil, err
		}
		return withType{apiVersion, to}, nil
	}
}

type withType struct {
	apiVersion string
	object     any
}

func (t withType) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(t.object)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields["apiVersion"], _ = json.Marshal(t.apiVersion)
	return json.Marshal(fields)
}

const (
	core1, core2 = "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"
	ipam1, ipam2 = "ipam.cluster.x-k8s.io/v1beta1", "ipam.cluster.x-k8s.io/v1beta2"
)

var converters = map[string]convert{
	core1 + " Cluster":            via[corev1beta1.Cluster, corev1beta2.Cluster](core2, conversion.ConvertClusterV1Beta1ToHub),
	core2 + " Cluster":            via[corev1beta2.Cluster, corev1beta1.Cluster](core1, conversion.ConvertClusterHubToV1Beta1),
	core1 + " Machine":            via[corev1beta1.Machine, corev1beta2.Machine](core2, conversion.ConvertMachineV1Beta1ToHub),
	core2 + " Machine":            via[corev1beta2.Machine, corev1beta1.Machine](core1, conversion.ConvertMachineHubToV1Beta1),
	core1 + " MachineSet":         via[corev1beta1.MachineSet, corev1beta2.MachineSet](core2, conversion.ConvertMachineSetV1Beta1ToHub),
	core2 + " MachineSet":         via[corev1beta2.MachineSet, corev1beta1.MachineSet](core1, conversion.ConvertMachineSetHubToV1Beta1),
	core1 + " MachineDeployment":  via[corev1beta1.MachineDeployment, corev1beta2.MachineDeployment](core2, conversion.ConvertMachineDeploymentV1Beta1ToHub),
	core2 + " MachineDeployment":  via[corev1beta2.MachineDeployment, corev1beta1.MachineDeployment](core1, conversion.ConvertMachineDeploymentHubToV1Beta1),
	core1 + " MachineHealthCheck": via[corev1beta1.MachineHealthCheck, corev1beta2.MachineHealthCheck](core2, conversion.ConvertMachineHealthCheckV1Beta1ToHub),
	core2 + " MachineHealthCheck": via[corev1beta2.MachineHealthCheck, corev1beta1.MachineHealthCheck](core1, conversion.ConvertMachineHealthCheckHubToV1Beta1),
	core1 + " MachineDrainRule":   via[corev1beta1.MachineDrainRule, corev1beta2.MachineDrainRule](core2, conversion.ConvertMachineDrainRuleV1Beta1ToHub),
	core2 + " MachineDrainRule":   via[corev1beta2.MachineDrainRule, corev1beta1.MachineDrainRule](core1, conversion.ConvertMachineDrainRuleHubToV1Beta1),
	ipam1 + " IPAddress":          via[ipamv1beta1.IPAddress, ipamv1beta2.IPAddress](ipam2, conversion.ConvertIPAddressV1Beta1ToHub),
	ipam2 + " IPAddress":          via[ipamv1beta2.IPAddress, ipamv1beta1.IPAddress](ipam1, conversion.ConvertIPAddressHubToV1Beta1),
	ipam1 + " IPAddressClaim":     via[ipamv1beta1.IPAddressClaim, ipamv1beta2.IPAddressClaim](ipam2, conversion.ConvertIPAddressClaimV1Beta1ToHub),
	ipam2 + " IPAddressClaim":     via[ipamv1beta2.IPAddressClaim, ipamv1beta1.IPAddressClaim](ipam1, conversion.ConvertIPAddressClaimHubToV1Beta1),
}

func answer(line []byte) any {
	var object struct{ APIVersion, Kind string }
	if err := json.Unmarshal(line, &object); err != nil {
		return map[string]string{"error": err.Error()}
	}
	do, known := converters[object.APIVersion+" "+object.Kind]
	if !known {
		return map[string]string{"error": fmt.Sprintf("no converter for %s %s", object.APIVersion, object.Kind)}
	}
	converted, err := do(line)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return converted
}

func main() {
	// References to v1beta1 get a fixed version: what the caller's own resolver has to answer as well.
	conversion.SetAPIVersionGetter(func(_ context.Context, kind schema.GroupKind) (string, error) {
		return schema.GroupVersion{Group: kind.Group, Version: "v1beta1"}.String(), nil
	})
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := encoder.Encode(answer(line)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			if lines.Buffered() == 0 {
				out.Flush()
			}
		}
		if err != nil {
			out.Flush()
			return
		}
	}
}
