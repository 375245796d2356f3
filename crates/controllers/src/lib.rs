//! The built-in controllers, one folder each.
//!
//! A controller reads the caches, plans (in a pure `plan.rs`) and acts through the API, like any other client. It knows
//! no other controller, keeps no state that it could not read again, and cannot name the server crates. To add one: a
//! folder here, named as kube-controller-manager names the controller, and a line in [`controller_descriptors()`];
//! those that belong to the API server are in [`api_server_controllers()`].
//!
//! Start reading at [`replica_set`].

pub mod api_server;
pub mod api_service;
pub mod bootstrap;
pub mod certificate_changes;
pub mod certificates;
pub mod cluster_authentication_trust;
pub mod cluster_role_aggregation;
pub mod clustertrustbundle_publisher;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod descriptors;
pub mod device_taint_eviction;
pub mod disruption;
pub mod endpoint_slice;
pub mod endpoint_slice_mirroring;
pub mod endpoints;
pub mod ephemeral_volume;
pub mod flow_schema;
pub mod garbage_collector;
pub mod horizontal_pod_autoscaler;
pub mod job;
pub mod namespace;
pub mod node_ipam;
pub mod node_lifecycle;
pub mod persistentvolume_binder;
pub mod persistentvolume_expander;
pub mod pod_gc;
pub mod pv_protection;
pub mod pvc_protection;
pub mod replica_set;
pub mod resource_claim;
pub mod resource_quota;
pub mod resources;
pub mod root_ca_publisher;
pub mod service_account;
pub mod service_cidr;
pub mod serviceaccount_tokens;
pub mod stateful_set;
pub mod storage_version_migrator;
pub mod taint_eviction;
pub mod ttl;
pub mod ttl_after_finished;
pub mod vac_protection;
pub mod validatingadmissionpolicy_status;

mod api_time;
mod controller_ref;
mod deletion_order;
mod endpoint_pods;
mod eviction;
mod expiry;
mod hash;
mod int_or_percent;
mod node_fit;
mod periodic;
mod pod_control;
mod pod_volumes;
mod pods;
mod revisions;
mod selector_view;
mod template;

pub use api_server::api_server_controllers;
pub use certificate_changes::ClusterCertificates;
pub use descriptors::{Config, ControllerDescriptor, controller_descriptors, select};
pub use resources::{Resource, Resources, ServedResources};
