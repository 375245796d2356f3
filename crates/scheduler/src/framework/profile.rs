//! [`Profile`]: the plugins of one scheduler name, by extension point.

use std::fmt;
use std::sync::Arc;

use super::extension_points::{
    Bind, EnqueueExtensions, Filter, Permit, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore,
    QueueSort, Reserve, Score, Sign,
};
use super::waiting_pods::WaitingPods;
use crate::extender::Extender;
use crate::metrics::Recorder;

/// A plugin with the extension points that it has.
#[derive(Clone, Default)]
pub struct Registration {
    pub name: &'static str,
    pub pre_enqueue: Option<Arc<dyn PreEnqueue>>,
    pub queue_sort: Option<Arc<dyn QueueSort>>,
    pub pre_filter: Option<Arc<dyn PreFilter>>,
    pub filter: Option<Arc<dyn Filter>>,
    pub post_filter: Option<Arc<dyn PostFilter>>,
    pub pre_score: Option<Arc<dyn PreScore>>,
    pub score: Option<Arc<dyn Score>>,
    pub reserve: Option<Arc<dyn Reserve>>,
    pub permit: Option<Arc<dyn Permit>>,
    pub pre_bind: Option<Arc<dyn PreBind>>,
    pub bind: Option<Arc<dyn Bind>>,
    pub post_bind: Option<Arc<dyn PostBind>>,
    pub enqueue: Option<Arc<dyn EnqueueExtensions>>,
    /// A plugin without it depends on the whole cluster.
    pub sign: Option<Arc<dyn Sign>>,
}

/// The plugins of a profile, in the order they are called.
#[derive(Default, Clone)]
pub struct Profile {
    /// It schedules the pods with this `spec.schedulerName`.
    pub scheduler: String,
    pub pre_enqueue: Vec<Arc<dyn PreEnqueue>>,
    pub queue_sort: Option<Arc<dyn QueueSort>>,
    pub pre_filter: Vec<Arc<dyn PreFilter>>,
    pub filter: Vec<Arc<dyn Filter>>,
    pub post_filter: Vec<Arc<dyn PostFilter>>,
    pub pre_score: Vec<Arc<dyn PreScore>>,
    /// With the weight of each.
    pub score: Vec<(Arc<dyn Score>, i64)>,
    pub reserve: Vec<Arc<dyn Reserve>>,
    pub permit: Vec<Arc<dyn Permit>>,
    pub pre_bind: Vec<Arc<dyn PreBind>>,
    pub bind: Vec<Arc<dyn Bind>>,
    pub post_bind: Vec<Arc<dyn PostBind>>,
    pub enqueue: Vec<Arc<dyn EnqueueExtensions>>,
    pub sign: Vec<Arc<dyn Sign>>,
    /// Names of Filter and Score plugins without [`Sign`].
    pub unsigned: Vec<&'static str>,
    /// The pods that Permit plugins let wait; all profiles of a scheduler share them.
    pub waiting_pods: Arc<WaitingPods>,
    /// The extenders, which all profiles of a scheduler share.
    pub extenders: Vec<Arc<Extender>>,
    /// The share of nodes to look at; 0 for the default, which falls with the number of nodes.
    pub percentage_of_nodes_to_score: u32,
    /// Records the metrics of its plugins.
    pub(crate) recorder: Arc<Recorder>,
}

impl Registration {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }
}

impl Profile {
    pub fn new(scheduler: &str) -> Self {
        Self {
            scheduler: scheduler.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a plugin to all its extension points; its scores count `weight` times.
    pub fn add(&mut self, plugin: Registration, weight: i64) {
        self.pre_enqueue.extend(plugin.pre_enqueue);
        self.queue_sort = self.queue_sort.take().or(plugin.queue_sort);
        self.pre_filter.extend(plugin.pre_filter);
        if (plugin.filter.is_some() || plugin.score.is_some()) && plugin.sign.is_none() {
            self.unsigned.push(plugin.name);
        }
        self.filter.extend(plugin.filter);
        self.post_filter.extend(plugin.post_filter);
        self.pre_score.extend(plugin.pre_score);
        self.score
            .extend(plugin.score.map(|score| (score, weight.max(1))));
        self.reserve.extend(plugin.reserve);
        self.permit.extend(plugin.permit);
        self.pre_bind.extend(plugin.pre_bind);
        self.bind.extend(plugin.bind);
        self.post_bind.extend(plugin.post_bind);
        self.enqueue.extend(plugin.enqueue);
        self.sign.extend(plugin.sign);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile")
            .field("scheduler", &self.scheduler)
            .finish_non_exhaustive()
    }
}
