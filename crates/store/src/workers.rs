//! Threads for blocking file work (snapshot files, backups), so that neither the sequencer nor an async caller waits.

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

/// Worker threads of one store. Dropping it sets their stop flag and joins them.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    stopping: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Set when the store is dropped: a job ends early, because its result is no longer needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Workers {
    /// Runs `job` on a new thread and waits for its result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(StopFlag) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, result) = oneshot::channel();
        let stop = StopFlag(self.stopping.clone());
        let thread = std::thread::Builder::new()
            .name("store-worker".into())
            .spawn(move || drop(sender.send(job(stop))))
            .map_err(Error::io("start", "store-worker"))?;
        self.add(thread);
        result.await.map_err(|_| Error::Closed)?
    }

    fn add(&self, thread: JoinHandle<()>) {
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
                tracing::error!("a store worker thread panicked");
            }
        }
    }
}
