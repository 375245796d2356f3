//! The scheduling framework: upstream's extension points as traits, over a [`CycleState`] and the shared
//! [`crate::state::ClusterState`].
//!
//! A plugin is a struct in [`crate::plugins`] that implements the traits of its extension points. Planning plugins
//! (PreFilter to Score) are pure: they read the state and the pod, and never wait. Only PreBind, Bind, PostBind and the
//! action of a PostFilter talk to the API, and they run after the cycle.
//!
//! Start reading at [`extension_points`], then [`profile`].

mod cycle_state;
mod events;
pub mod extension_points;
mod handle;
pub mod profile;
mod profiles;
mod rejection;
mod runner;
mod waiting_pods;

pub use cycle_state::CycleState;
pub(crate) use events::EventLabel;
pub use events::{ActionType, ClusterEvent, EventChange, EventResource, QueueingHint};
pub use extension_points::{
    Bind, BindError, BindRequest, BoxFuture, Dependency, EnqueueExtensions, Filter, MAX_SCORE, NodeNames,
    NodeScore, Permit, PermitResult, Plugin, PostBind, PostFilter, PostFilterAction, PostFilterInput,
    PostFilterResult, PreBind, PreEnqueue, PreFilter, PreFilterResult, PreScore, PreScoreResult,
    PreemptionCandidate, QueueSort, Reserve, Score, Sign,
};
pub use handle::Handle;
pub use profile::{Profile, Registration};
pub use profiles::Profiles;
pub use rejection::{Code, Rejection};
pub use runner::PluginScores;
pub(crate) use runner::{DomainPlugins, NodeLimit};
pub use waiting_pods::{WaitingPod, WaitingPods};
