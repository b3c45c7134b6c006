use crate::capi::v1beta2::MachineDrainRuleSpec;

kind! {
    /// Says how the pods it selects are treated when the machines it selects are drained.
    #[schemars(extend("required" = ["metadata", "spec"]))]
    pub struct MachineDrainRule: "cluster.x-k8s.io" / "v1beta1" machinedrainrules Namespaced {
        /// The rule.
        pub spec: MachineDrainRuleSpec,
    }
}
