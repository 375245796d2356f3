//! [`Attack`]: the user who sends the flood, and the responses to it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_conformance::time::sleep;
use setpoint_conformance::wire::{Connection, Endpoint, Request, Response};

use crate::session::Session;
use crate::soak::ALICE;

const POLL: Duration = Duration::from_millis(50);

/// The threads of the flood share one.
#[derive(Debug)]
pub(super) struct Attack {
    endpoint: Endpoint,
    pub(super) kubeconfig: PathBuf,
    is_stopped: AtomicBool,
    statuses: Mutex<BTreeMap<String, u64>>,
}

impl Attack {
    pub(super) fn new(endpoint: &Endpoint, kubeconfig: &Path) -> Self {
        Self {
            endpoint: endpoint.clone(),
            kubeconfig: kubeconfig.to_owned(),
            is_stopped: AtomicBool::new(false),
            statuses: Mutex::default(),
        }
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// The number of responses by status code, or by the kind of the connection's error.
    pub(super) fn statuses(&self) -> BTreeMap<String, u64> {
        self.statuses.lock().clone()
    }

    pub(super) fn session(&self) -> Session {
        Session::new(&self.endpoint, ALICE)
    }

    pub(super) fn count(&self, status: impl Into<String>) {
        *self.statuses.lock().entry(status.into()).or_default() += 1;
    }

    pub(super) fn record(&self, result: &io::Result<Response>) {
        match result {
            Ok(response) => self.count(response.status.to_string()),
            Err(error) => self.count(format!("{:?}", error.kind())),
        }
    }

    /// Sends requests in so many threads until stopped. Each is built from the number of its thread and its own.
    pub(super) fn repeat(&self, threads: usize, request: impl Fn(usize, usize) -> Request + Sync) {
        thread::scope(|scope| {
            for thread in 0..threads {
                let request = &request;
                scope.spawn(move || {
                    let mut session = self.session();
                    for number in 0.. {
                        if self.is_stopped() {
                            return;
                        }
                        self.record(&session.send(&request(thread, number)));
                    }
                });
            }
        });
    }

    /// Opens connections in several threads, each of which sends these bytes, and holds them until stopped.
    pub(super) fn hold(&self, connections: usize, bytes: impl Fn(&Connection) -> Vec<u8> + Sync) {
        const THREADS: usize = 8;
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let bytes = &bytes;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    while held.len() < connections / THREADS && !self.is_stopped() {
                        match self.open(bytes) {
                            Ok(connection) => {
                                self.count("opened");
                                held.push(connection);
                            }
                            Err(error) => self.count(format!("{:?}", error.kind())),
                        }
                    }
                    self.wait();
                });
            }
        });
    }

    pub(super) fn wait(&self) {
        while !self.is_stopped() {
            sleep(POLL);
        }
    }

    fn open(&self, bytes: &impl Fn(&Connection) -> Vec<u8>) -> io::Result<Connection> {
        let mut connection = self.session().connect()?;
        let bytes = bytes(&connection);
        connection.send(&bytes)?;
        Ok(connection)
    }
}
