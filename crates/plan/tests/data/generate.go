//go:build ignore

// Makes the fixtures in this directory, with Go's own encoders and none of our code:
//
//	cd crates/plan/tests/data && go run generate.go
//
// The structs have the fields, tags and order of Rancher's NodePlan (planner), Plan (agent v0.15.0) and the agent's
// position file. Values are the same as in ../fixtures.rs.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

type file struct {
	Content     string `json:"content,omitempty"`
	Directory   bool   `json:"directory,omitempty"`
	UID         int    `json:"uid,omitempty"`
	GID         int    `json:"gid,omitempty"`
	Path        string `json:"path,omitempty"`
	Permissions string `json:"permissions,omitempty"`
	Action      string `json:"action,omitempty"`
	Dynamic     bool   `json:"dynamic,omitempty"`
	Minor       bool   `json:"minor,omitempty"`
}

type common struct {
	Name    string   `json:"name,omitempty"`
	Image   string   `json:"image,omitempty"`
	Env     []string `json:"env,omitempty"`
	Args    []string `json:"args,omitempty"`
	Command string   `json:"command,omitempty"`
	Script  string   `json:"script,omitempty"`
}

type oneTime struct {
	common
	SaveOutput bool `json:"saveOutput,omitempty"`
}

type periodic struct {
	common
	PeriodSeconds    int  `json:"periodSeconds,omitempty"`
	SaveStderrOutput bool `json:"saveStderrOutput,omitempty"`
}

type httpGet struct {
	URL        string `json:"url,omitempty"`
	Insecure   bool   `json:"insecure,omitempty"`
	ClientCert string `json:"clientCert,omitempty"`
	ClientKey  string `json:"clientKey,omitempty"`
	CACert     string `json:"caCert,omitempty"`
}

type probe struct {
	Name                string  `json:"name,omitempty"`
	InitialDelaySeconds int     `json:"initialDelaySeconds,omitempty"`
	TimeoutSeconds      int     `json:"timeoutSeconds,omitempty"`
	SuccessThreshold    int     `json:"successThreshold,omitempty"`
	FailureThreshold    int     `json:"failureThreshold,omitempty"`
	HTTPGet             httpGet `json:"httpGet,omitempty"`
}

// What the planner encodes.
type nodePlan struct {
	Files                []file           `json:"files,omitempty"`
	Instructions         []oneTime        `json:"instructions,omitempty"`
	PeriodicInstructions []periodic       `json:"periodicInstructions,omitempty"`
	Error                string           `json:"error,omitempty"`
	Probes               map[string]probe `json:"probes,omitempty"`
}

// What other orchestrators encode: another order of keys.
type agentPlan struct {
	Files                []file           `json:"files,omitempty"`
	OneTimeInstructions  []oneTime        `json:"instructions,omitempty"`
	Probes               map[string]probe `json:"probes,omitempty"`
	PeriodicInstructions []periodic       `json:"periodicInstructions,omitempty"`
}

type periodicOutput struct {
	Name                  string `json:"name"`
	Stdout                []byte `json:"stdout"`
	Stderr                []byte `json:"stderr"`
	ExitCode              int    `json:"exitCode"`
	LastSuccessfulRunTime string `json:"lastSuccessfulRunTime"`
	Failures              int    `json:"failures"`
	LastFailedRunTime     string `json:"lastFailedRunTime"`
}

type probeStatus struct {
	Healthy      bool `json:"healthy,omitempty"`
	SuccessCount int  `json:"successCount,omitempty"`
	FailureCount int  `json:"failureCount,omitempty"`
}

type position struct {
	AppliedChecksum string                 `json:"appliedChecksum,omitempty"`
	Output          []byte                 `json:"output,omitempty"`
	ProbeStatus     map[string]probeStatus `json:"probeStatus,omitempty"`
	PeriodicOutput  []byte                 `json:"periodicOutput,omitempty"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func write(name string, content []byte) { must(0, os.WriteFile(name, content, 0o644)) }

func encode(value any) []byte { return must(json.Marshal(value)) }

func sum(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

func pack(content []byte) []byte {
	var buffer bytes.Buffer
	writer := gzip.NewWriter(&buffer)
	must(writer.Write(content))
	must(0, writer.Close())
	return buffer.Bytes()
}

func full() nodePlan {
	return nodePlan{
		Files: []file{
			{Content: "aGVsbG8K", Path: "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml", Dynamic: true},
			{Content: "c2VjcmV0", Path: "/var/lib/x", Permissions: "0644", UID: 1000, GID: 2000, Minor: true},
			{Directory: true, Path: "/var/lib/dir", Permissions: "0700"},
			{Path: "/var/lib/old", Action: "delete"},
		},
		Instructions: []oneTime{
			{common: common{Name: "install", Image: "rancher/system-agent-installer-rke2:v1.33.11-rke2r1",
				Env: []string{"RESTART_STAMP=abc", "INSTALL_RKE2_EXEC=server"}, Args: []string{"-c", "run.sh"},
				Command: "sh"}, SaveOutput: true},
			{common: common{Name: "scripted", Script: "#!/bin/sh\necho '<&>' \u2028\u2029 \"quoted\" \\ \t\b\f\x01\x7f é 😀\n"}},
		},
		PeriodicInstructions: []periodic{
			{common: common{Name: "etcd-snapshots", Args: []string{"a<b", "c&&d", ">e"}, Command: "/bin/sh"},
				PeriodSeconds: 120, SaveStderrOutput: true},
		},
		Error: "none & <yet>",
		Probes: map[string]probe{
			"kubelet": {InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 2,
				HTTPGet: httpGet{URL: "http://127.0.0.1:10248/healthz"}},
			"kube-apiserver": {Name: "kube-apiserver", HTTPGet: httpGet{URL: "https://127.0.0.1:6443/readyz?a=1&b=2",
				CACert: "/ca.crt", ClientCert: "/client.crt", ClientKey: "/client.key"}},
			"Empty":       {},
			"etcd-\u00e9": {HTTPGet: httpGet{Insecure: true}},
		},
	}
}

func main() {
	plan := encode(full())
	agent := encode(agentPlan{full().Files, full().Instructions, full().Probes, full().PeriodicInstructions})
	write("plan.json", plan)
	write("plan-empty.json", encode(nodePlan{}))
	write("plan-agent-order.json", agent)
	checksums := ""
	for _, name := range []string{"plan.json", "plan-empty.json", "plan-agent-order.json"} {
		checksums += sum(must(os.ReadFile(name))) + "  " + name + "\n"
	}
	write("checksums.txt", []byte(checksums))

	outputs := encode(map[string][]byte{"install": []byte("hello\n"), "b<&>": {0, 255, 10}, "a": {}})
	periodics := encode(map[string]periodicOutput{
		"etcd-snapshots": {Name: "etcd-snapshots", Stdout: []byte("snapshot\n"), Stderr: []byte{}, ExitCode: 0,
			LastSuccessfulRunTime: "Thu Mar  5 07:08:09 UTC 2026"},
		"gone": {Name: "gone", Stdout: nil, Stderr: []byte("no\n"), ExitCode: -1, Failures: 3,
			LastSuccessfulRunTime: "Thu Mar  5 07:00:00 UTC 2026", LastFailedRunTime: "Thu Mar  5 07:08:09 UTC 2026"},
	})
	statuses := map[string]probeStatus{
		"kubelet": {Healthy: true, SuccessCount: 1}, "kube-apiserver": {Healthy: true, FailureCount: 2}, "Empty": {},
	}
	write("outputs.json", outputs)
	write("periodic-outputs.json", periodics)
	write("secret.json", encode(map[string][]byte{
		"plan": plan, "plan-state": []byte("succeeded"), "plan-revision": []byte("7"),
		"max-failures": []byte("5"), "failure-threshold": []byte("-1"), "probe-period-seconds": []byte("2.5"),
		"applied-checksum": []byte(sum(plan)), "applied-output": pack(outputs), "appliedPlan": plan,
		"applied-periodic-output": pack(periodics), "failed-checksum": {}, "failed-output": {},
		"failure-count": []byte("0"), "success-count": []byte("4"),
		"last-apply-time": []byte("Thu Mar  5 07:08:09 UTC 2026"), "probe-statuses": encode(statuses),
	}))
	write("position.json", encode(position{sum(plan), pack(outputs), statuses, pack(periodics)}))

	var times strings.Builder
	for _, second := range []int64{0, 1, 951782400, 951868799, 1709164800, 1772694489, 1798761599, 4102444800, -62135596800} {
		fmt.Fprintf(&times, "%d %s\n", second, time.Unix(second, 0).UTC().Format(time.UnixDate))
	}
	write("unixdate.txt", []byte(times.String()))
}
