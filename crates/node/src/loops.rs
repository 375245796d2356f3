//! [`Loops`]: the loops of an agent besides its controller and its heartbeat.

use std::sync::Arc;

use futures_util::future::OptionFuture;
use setpoint_api::Key;
use setpoint_container_runtime::EventReceiver;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::eviction::EvictionManager;
use crate::garbage_collection::GarbageCollector;
use crate::pod::reconciler::PodTask;
use crate::pod::record::Records;
use crate::pod::work::PodExecutor;
use crate::probes::Prober;
use crate::relist::Relist;
use crate::shutdown::ShutdownManager;
use crate::simulated::SimulatedRuntime;
use crate::volumes::VolumeManager;
use crate::{runtime_events, tasks};

/// What the loops of an agent work on.
pub(crate) struct Loops {
    /// The timers of simulated containers.
    pub(crate) simulated: Option<Arc<SimulatedRuntime>>,
    /// The probes of other containers.
    pub(crate) prober: Option<Arc<Prober>>,
    pub(crate) volumes: Option<Arc<VolumeManager>>,
    pub(crate) relist: Relist,
    /// What only a node with containers has.
    pub(crate) host: Option<HostLoops>,
    pub(crate) records: Arc<Records>,
    pub(crate) events: EventReceiver,
    pub(crate) work: mpsc::Receiver<PodTask>,
    /// The keys of pods to reconcile.
    pub(crate) keys: mpsc::Sender<Key>,
}

/// The loops of a node with containers: static pods, and what keeps it within its resources.
pub(crate) struct HostLoops {
    pub(crate) executor: Arc<PodExecutor>,
    /// The keys of pods to reconcile.
    pub(crate) keys: mpsc::Sender<Key>,
    pub(crate) garbage: Arc<GarbageCollector>,
    pub(crate) eviction: EvictionManager,
    pub(crate) shutdown: Option<ShutdownManager>,
}

impl HostLoops {
    async fn run(&self, stop: CancellationToken) {
        let shutdown = self.shutdown.as_ref().map(|shutdown| shutdown.run(stop.clone()));
        tokio::join!(
            self.garbage.run(stop.clone()),
            self.eviction.run(stop.clone()),
            OptionFuture::from(shutdown),
            self.executor.static_pods.run(self.keys.clone(), stop.clone()),
        );
    }
}

impl Loops {
    /// Runs all loops until stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let keys = &self.keys;
        let timers = self
            .simulated
            .as_ref()
            .map(|simulated| simulated.run(stop.clone()));
        let probes = self.prober.as_ref();
        let probes = probes.map(|prober| prober.run(&self.records, keys.clone(), stop.clone()));
        // The state of a simulated runtime changes by its events alone.
        let relist = self.prober.as_ref().map(|_| self.relist.run(stop.clone()));
        let volumes = self.volumes.as_ref().map(|volumes| volumes.run(stop.clone()));
        let host = self.host.as_ref().map(|host| host.run(stop.clone()));
        tokio::join!(
            OptionFuture::from(host),
            OptionFuture::from(timers),
            OptionFuture::from(probes),
            OptionFuture::from(relist),
            OptionFuture::from(volumes),
            tasks::run(self.work, keys.clone(), stop.clone()),
            runtime_events::run(&mut self.events, &self.records, keys.clone(), stop.clone()),
        );
    }
}
