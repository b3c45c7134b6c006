// Pins a native Cluster API provider, for its CRDs: read from the module cache and never copied. See docs/peers.md.
module herdsman.io/peers/provider-aws

go 1.26.0

require sigs.k8s.io/cluster-api-provider-aws/v2 v2.13.0
