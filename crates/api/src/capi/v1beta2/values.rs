//! The texts that fields of this version take.

macro_rules! values {
    (
        $(#[$about:meta])*
        $name:ident { $( $(#[$about_value:meta])* $Value:ident = $text:literal ),* $(,)? }
    ) => {
        $(#[$about])*
        pub mod $name {
            $( $(#[$about_value])* pub const $Value: &str = $text; )*
            /// All of them.
            pub const ALL: &[&str] = &[$($Value),*];
        }
    };
}

values! {
    /// `Cluster.status.phase`.
    cluster_phase {
        /// Nothing has been provisioned yet.
        PENDING = "Pending",
        /// Infrastructure or control plane is on its way.
        PROVISIONING = "Provisioning",
        /// There is infrastructure, and an endpoint.
        PROVISIONED = "Provisioned",
        /// Being taken down.
        DELETING = "Deleting",
        /// Kept for older readers; no longer set.
        FAILED = "Failed",
        /// None of the others can be told.
        UNKNOWN = "Unknown",
    }
}

values! {
    /// `Machine.status.phase`.
    machine_phase {
        /// Waits for its bootstrap data.
        PENDING = "Pending",
        /// Bootstrap data is there, the server is on its way.
        PROVISIONING = "Provisioning",
        /// There is a server, which is not a node yet.
        PROVISIONED = "Provisioned",
        /// A node of the cluster.
        RUNNING = "Running",
        /// Being changed in place.
        UPDATING = "Updating",
        /// Being taken down.
        DELETING = "Deleting",
        /// The server is gone.
        DELETED = "Deleted",
        /// Kept for older readers; no longer set.
        FAILED = "Failed",
        /// None of the others can be told.
        UNKNOWN = "Unknown",
    }
}

values! {
    /// `MachineDeployment.status.phase`.
    machine_deployment_phase {
        /// Fewer machines than asked for.
        SCALING_UP = "ScalingUp",
        /// More machines than asked for.
        SCALING_DOWN = "ScalingDown",
        /// As many as asked for.
        RUNNING = "Running",
        /// Kept for older readers; no longer set.
        FAILED = "Failed",
        /// None of the others can be told.
        UNKNOWN = "Unknown",
    }
}

values! {
    /// Which machines go first on scale-down.
    deletion_order {
        /// Any. The default.
        RANDOM = "Random",
        /// The youngest.
        NEWEST = "Newest",
        /// The oldest.
        OLDEST = "Oldest",
    }
}

values! {
    /// How a MachineDeployment replaces machines.
    rollout_strategy {
        /// Step by step. The default.
        ROLLING_UPDATE = "RollingUpdate",
        /// Only those that somebody deletes.
        ON_DELETE = "OnDelete",
    }
}

values! {
    /// What a taint does to pods.
    taint_effect {
        /// Keeps new pods away.
        NO_SCHEDULE = "NoSchedule",
        /// Keeps new pods away where possible.
        PREFER_NO_SCHEDULE = "PreferNoSchedule",
        /// Keeps new pods away and evicts those that are there.
        NO_EXECUTE = "NoExecute",
    }
}

values! {
    /// How long a machine's taint is upheld on its node.
    taint_propagation {
        /// For the node's whole life.
        ALWAYS = "Always",
        /// Set when the node joins, then left to others.
        ON_INITIALIZATION = "OnInitialization",
    }
}

values! {
    /// Which status of a condition is good news.
    polarity {
        /// True is good. The default.
        POSITIVE = "Positive",
        /// False is good.
        NEGATIVE = "Negative",
    }
}

values! {
    /// Status of a condition.
    condition_status {
        /// It is so.
        TRUE = "True",
        /// It is not so.
        FALSE = "False",
        /// Cannot be told.
        UNKNOWN = "Unknown",
    }
}

values! {
    /// Kinds of machine addresses.
    address_type {
        /// What the machine calls itself.
        HOSTNAME = "Hostname",
        /// Address reachable from outside.
        EXTERNAL_IP = "ExternalIP",
        /// Address inside the machine's network.
        INTERNAL_IP = "InternalIP",
        /// Name that resolves outside.
        EXTERNAL_DNS = "ExternalDNS",
        /// Name that resolves inside the machine's network.
        INTERNAL_DNS = "InternalDNS",
    }
}

values! {
    /// What draining a node does with a pod.
    drain_behavior {
        /// Evict it.
        DRAIN = "Drain",
        /// Leave it, and do not wait for it.
        SKIP = "Skip",
        /// Leave it, and wait until it has finished.
        WAIT_COMPLETED = "WaitCompleted",
    }
}
