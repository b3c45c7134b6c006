// Pins the Cluster API whose CRDs ours are compared with; read from the module cache, never copied. See docs/peers.md.
module herdsman.io/peers/cluster-api

go 1.26.0

require sigs.k8s.io/cluster-api v1.14.0
