//! Threads for work that waits for files, so that neither the sequencer nor an async caller has to.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Error;

/// The worker threads of one store. Dropping it asks them to stop and waits until they have.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    stopping: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Tells a job that its result is no longer wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Workers {
    /// Runs `job` on a thread of its own and waits for its result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(Stop) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let stop = Stop(self.stopping.clone());
        let thread = std::thread::Builder::new()
            .name("store-worker".into())
            .spawn(move || drop(reply.send(job(stop))))
            .map_err(Error::io("start", "store-worker"))?;
        self.keep(thread);
        answer.await.map_err(|_| Error::Closed)?
    }

    fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stopping.store(true, Relaxed);
        for thread in self.threads.get_mut().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a store worker has panicked");
            }
        }
    }
}
