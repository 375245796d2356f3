//! Eviction of pods from a node that runs out of memory, disk space, inodes or process ids.
//!
//! The [`manager`] compares what is available ([`observation`]) with hard [`threshold`]s. A threshold that is met gives
//! the node a [`pressure`] condition; then dead containers and unused images are removed, and if that is not enough, the
//! first pod of the [`ranking`] is evicted. It follows the kubelet's `pkg/kubelet/eviction`.

mod manager;
mod message;
mod observation;
mod pressure;
mod ranking;
pub mod threshold;
mod usage;

pub(crate) use manager::EvictionManager;
pub(crate) use observation::working_set;
pub(crate) use pressure::{NodePressure, Pressure};
