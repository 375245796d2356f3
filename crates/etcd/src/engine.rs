//! [`EtcdLog`]: the thread of the engine, and the store's handle to it.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
};

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_store::{
    Config, Error, RemoteFailure, RemoteFuture, RemoteLog, RemoteOutcome, RemoteTxn, Replica, Revision, Store,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    client::Client,
    compaction,
    config::EtcdConfig,
    confirm::{self, Confirmation},
    follow::Follower,
    health::{self, Health},
    lease::Leases,
    txn,
};

/// Opens a store on an etcd cluster. Resolves once its keys are listed; needs no runtime of the caller's.
pub async fn open(config: EtcdConfig, store: Config) -> Result<Store, Error> {
    let (filled, first_fill) = oneshot::channel();
    let store = Store::replicated(store, |replica| {
        let log = EtcdLog::start(config, replica, filled)?;
        Ok(Arc::new(log) as Arc<dyn RemoteLog>)
    })?;
    first_fill.await.map_err(|_| Error::Closed)??;
    Ok(store)
}

/// Handle to the thread of the engine. Dropping it ends the thread.
#[derive(Debug)]
struct EtcdLog {
    proposals: mpsc::Sender<Proposal>,
    confirmations: mpsc::Sender<Confirmation>,
    health: Arc<Health>,
    stop: CancellationToken,
    /// Set once the thread has ended.
    ended: CancellationToken,
    /// `None` once it was joined.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A transaction, and the channel to the caller that waits for its outcome.
#[derive(Debug)]
struct Proposal {
    txn: RemoteTxn,
    reply: oneshot::Sender<Result<RemoteOutcome, Error>>,
}

/// The state of the thread, from which its tasks are started.
struct Engine {
    config: EtcdConfig,
    follower: Follower,
    proposals: mpsc::Receiver<Proposal>,
    confirmations: mpsc::Receiver<Confirmation>,
    /// Notified when the replica is filled for the first time, or cannot be.
    filled: oneshot::Sender<Result<(), Error>>,
    stop: CancellationToken,
}

/// Transactions that may wait for the thread; more make their callers wait.
const QUEUED_PROPOSALS: usize = 4096;

impl EtcdLog {
    /// Starts the thread, which fills the replica.
    fn start(
        config: EtcdConfig,
        replica: Arc<Replica>,
        filled: oneshot::Sender<Result<(), Error>>,
    ) -> Result<EtcdLog, Error> {
        if config.endpoints.is_empty() {
            return Err(unavailable("no etcd servers are given"));
        }
        let (proposals, proposed) = mpsc::channel(QUEUED_PROPOSALS);
        let (confirmations, confirmed) = mpsc::channel(confirm::QUEUE);
        let health = Arc::new(Health::default());
        let stop = CancellationToken::new();
        let engine = Engine {
            follower: Follower {
                client: Arc::new(Client::new(&config)),
                replica,
                health: health.clone(),
            },
            config,
            proposals: proposed,
            confirmations: confirmed,
            filled,
            stop: stop.clone(),
        };
        let ended = CancellationToken::new();
        let thread = spawn(engine, ended.clone())?;
        Ok(EtcdLog {
            proposals,
            confirmations,
            health,
            stop,
            ended,
            thread: Mutex::new(Some(thread)),
        })
    }

    async fn request<T>(
        &self,
        queued: Result<(), Error>,
        reply: oneshot::Receiver<Result<T, Error>>,
    ) -> Result<T, Error> {
        queued?;
        reply.await.map_err(|_| Error::Closed)?
    }
}

impl RemoteLog for EtcdLog {
    fn propose(&self, txn: RemoteTxn) -> RemoteFuture<'_, RemoteOutcome> {
        Box::pin(async move {
            let (reply, outcome) = oneshot::channel();
            let queued = self.proposals.send(Proposal { txn, reply }).await;
            self.request(queued.map_err(|_| Error::Closed), outcome).await
        })
    }

    fn confirmed_revision(&self) -> RemoteFuture<'_, Revision> {
        Box::pin(async move {
            let (reply, revision) = oneshot::channel();
            let queued = self.confirmations.send(reply).await;
            self.request(queued.map_err(|_| Error::Closed), revision).await
        })
    }

    fn check_health(&self) -> Result<(), Error> {
        self.health.check()
    }

    fn close(&self) -> RemoteFuture<'_, ()> {
        Box::pin(async move {
            self.stop.cancel();
            self.ended.cancelled().await;
            Ok(())
        })
    }
}

impl Drop for EtcdLog {
    fn drop(&mut self) {
        self.stop.cancel();
        let ended = self.thread.get_mut().take().map(JoinHandle::join);
        if let Some(Err(_)) = ended {
            tracing::error!("the thread of the etcd engine panicked");
        }
    }
}

fn spawn(engine: Engine, ended: CancellationToken) -> Result<JoinHandle<()>, Error> {
    let failed = |source: io::Error| Error::Io {
        action: "start",
        path: PathBuf::from("store-etcd"),
        source: Arc::new(source),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    thread::Builder::new()
        .name("store-etcd".into())
        .spawn(move || {
            let _ended = ended.drop_guard();
            runtime.block_on(run(engine));
        })
        .map_err(failed)
}

/// Runs the engine until it is stopped; then the transactions that were accepted are completed.
async fn run(engine: Engine) {
    let Engine {
        config,
        follower,
        mut proposals,
        confirmations,
        filled,
        stop,
    } = engine;
    let client = follower.client.clone();
    let (replica, health) = (follower.replica.clone(), follower.health.clone());
    let leases = Arc::new(Leases::new(replica.clone()));
    let key = probe_key(&replica);
    let mut tasks = JoinSet::new();
    tasks.spawn(health::run(
        client.clone(),
        (replica.clone(), health.clone()),
        key.clone(),
    ));
    tasks.spawn(confirm::run(
        client.clone(),
        (replica.clone(), health.clone()),
        key,
        confirmations,
    ));
    tasks.spawn(compaction::run(client.clone(), config.compaction_interval));
    tasks.spawn(async move {
        let Ok(newest) = tokio::time::timeout(config.start_timeout, follower.start()).await else {
            filled.send(Err(follower.start_error())).ok();
            return;
        };
        let caught_up = async {
            let reached = tokio::time::timeout(config.start_timeout, follower.replica.reached(newest)).await;
            let started = reached.unwrap_or_else(|_| Err(follower.start_error()));
            filled.send(started).ok();
        };
        tokio::join!(caught_up, follower.run());
    });
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = under_way.join_next() => {}
            // Without one of its tasks the engine would serve old objects, or none, and report nothing.
            Some(Err(error)) = tasks.join_next() => {
                health.fail(&unavailable(&format!("a task of the etcd engine failed: {error}")));
                break;
            }
            proposal = proposals.recv() => {
                let Some(proposal) = proposal else { break };
                under_way.spawn(execute(client.clone(), (leases.clone(), replica.clone()), proposal));
            }
        }
    }
    while under_way.join_next().await.is_some() {}
    tasks.shutdown().await;
}

async fn execute(client: Arc<Client>, (leases, replica): (Arc<Leases>, Arc<Replica>), proposal: Proposal) {
    let outcome = txn::propose(&client, (&leases, &replica), proposal.txn).await;
    proposal.reply.send(outcome).ok();
}

/// A key under the prefix that is read to learn the revision; it need not exist.
fn probe_key(replica: &Replica) -> Bytes {
    [&replica.stored_prefix()[..], b"health"].concat().into()
}

fn unavailable(message: &str) -> Error {
    Error::Remote {
        failure: RemoteFailure::Unavailable,
        message: message.to_owned(),
    }
}
