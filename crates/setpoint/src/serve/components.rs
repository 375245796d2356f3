//! The components of the process: started together, and stopped together on a signal or when one of them ends.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use setpoint_api::Clock;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long components may take to stop.
const GRACE: Duration = Duration::from_millis(900);
/// The exit code when the process is interrupted twice.
const INTERRUPTED: i32 = 130;

/// The running components.
#[derive(Debug)]
pub(super) struct Components {
    running: JoinSet<(&'static str, Result<()>)>,
    stop: CancellationToken,
}

/// The signals that end the process.
#[derive(Debug)]
pub(super) struct Signals {
    interrupts: Signal,
    terminations: Signal,
}

// === impl Signals ===

impl Signals {
    /// Listens for SIGINT and SIGTERM from now on, so that none is lost before they are waited for.
    pub(super) fn listen() -> Result<Self> {
        Ok(Self {
            interrupts: signal(SignalKind::interrupt()).context("cannot listen for interrupts")?,
            terminations: signal(SignalKind::terminate()).context("cannot listen for termination")?,
        })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> rustix::process::Signal {
        tokio::select! {
            _ = self.interrupts.recv() => rustix::process::Signal::INT,
            _ = self.terminations.recv() => rustix::process::Signal::TERM,
        }
    }
}

// === impl Components ===

impl Components {
    /// No components yet. They run until the token is cancelled.
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self {
            running: JoinSet::new(),
            stop,
        }
    }

    /// Starts a component. It runs until its token is cancelled.
    pub(super) fn start<F>(&mut self, name: &'static str, component: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let component = component(self.stop.clone());
        self.running.spawn(async move { (name, component.await) });
    }

    /// Waits for a signal or until a component ends, then stops all components. Returns the error of the first to end.
    pub(super) async fn wait(mut self, signals: &mut Signals, clock: &Arc<dyn Clock>) -> Result<()> {
        let outcome = tokio::select! {
            _ = signals.next() => Ok(()),
            Some(ended) = self.running.join_next() => Err(early_exit_error(ended)),
        };
        tokio::select! {
            () = self.stop_all(clock) => {}
            _ = signals.interrupts.recv() => std::process::exit(INTERRUPTED),
        }
        outcome
    }

    /// Waits until the token is cancelled or a component ends, then stops all components. Returns the error of the first
    /// to end.
    pub(super) async fn wait_until_stopped(self, clock: &Arc<dyn Clock>) -> Result<()> {
        let stop = self.stop.clone();
        self.wait_for(stop.cancelled(), clock).await
    }

    /// Waits for a future or until a component ends, then stops all components. Returns the error of the first to end.
    pub(super) async fn wait_for<T>(
        mut self,
        work: impl Future<Output = T>,
        clock: &Arc<dyn Clock>,
    ) -> Result<T> {
        let outcome = tokio::select! {
            biased;
            done = work => Ok(done),
            Some(ended) = self.running.join_next() => Err(early_exit_error(ended)),
        };
        self.stop_all(clock).await;
        outcome
    }

    async fn stop_all(&mut self, clock: &Arc<dyn Clock>) {
        self.stop.cancel();
        let stopped = async { while self.running.join_next().await.is_some() {} };
        tokio::select! {
            () = stopped => {}
            () = clock.sleep(GRACE) => tracing::warn!("some components did not stop within {} ms", GRACE.as_millis()),
        }
        self.running.shutdown().await;
    }
}

/// The error for a component that ended although it should run until stopped.
fn early_exit_error(ended: Result<(&'static str, Result<()>), tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok((name, Err(error))) => error.context(format!("{name} failed")),
        Ok((name, Ok(()))) => anyhow!("{name} ended unexpectedly"),
        Err(error) => anyhow!("a component panicked: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    #[tokio::test]
    async fn the_first_component_that_fails_stops_the_others() {
        let mut components = Components::new(CancellationToken::new());
        components.start("well", |stop| async move {
            stop.cancelled().await;
            Ok(())
        });
        components.start("broken", |_| async { Err(anyhow!("no disk")) });
        let error = components
            .wait(&mut Signals::listen().unwrap(), &clock())
            .await
            .unwrap_err();
        assert_eq!(format!("{error:#}"), "broken failed: no disk");
    }

    #[tokio::test]
    async fn a_component_that_ends_without_an_error_has_failed() {
        let mut components = Components::new(CancellationToken::new());
        components.start("short", |_| async { Ok(()) });
        assert_eq!(
            components
                .wait(&mut Signals::listen().unwrap(), &clock())
                .await
                .unwrap_err()
                .to_string(),
            "short ended unexpectedly"
        );
    }
}
