//! The parts of the process: started together, and stopped together when one fails or someone says so.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use setpoint_api::Clock;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long parts may take to stop.
const GRACE: Duration = Duration::from_millis(900);
/// What the process ends with when it is interrupted twice.
const INTERRUPTED: i32 = 130;

/// The parts that are running.
#[derive(Debug)]
pub(super) struct Components {
    running: JoinSet<(&'static str, Result<()>)>,
    stop: CancellationToken,
    interrupts: Signal,
    terminations: Signal,
}

impl Components {
    /// Listens for signals from now on: a process that serves can be told to stop.
    pub(super) fn new(stop: CancellationToken) -> Result<Self> {
        Ok(Self {
            running: JoinSet::new(),
            stop,
            interrupts: signal(SignalKind::interrupt()).context("cannot listen for interrupts")?,
            terminations: signal(SignalKind::terminate()).context("cannot listen for termination")?,
        })
    }

    /// Starts a part. It runs until its token is cancelled.
    pub(super) fn start<F>(&mut self, name: &'static str, part: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let part = part(self.stop.clone());
        self.running.spawn(async move { (name, part.await) });
    }

    /// Waits until someone says stop or a part ends, then stops all parts. What the first to fail says is the outcome.
    pub(super) async fn wait(mut self, clock: &Arc<dyn Clock>) -> Result<()> {
        let outcome = tokio::select! {
            _ = self.interrupts.recv() => Ok(()),
            _ = self.terminations.recv() => Ok(()),
            Some(ended) = self.running.join_next() => Err(early_exit_error(ended)),
        };
        self.stop.cancel();
        let stopped = async { while self.running.join_next().await.is_some() {} };
        tokio::select! {
            () = stopped => {}
            () = clock.sleep(GRACE) => tracing::warn!("some parts did not stop in time"),
            _ = self.interrupts.recv() => std::process::exit(INTERRUPTED),
        }
        self.running.shutdown().await;
        outcome
    }
}

/// Why a part that should run for ever has ended.
fn early_exit_error(ended: Result<(&'static str, Result<()>), tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok((name, Err(error))) => error.context(format!("{name} failed")),
        Ok((name, Ok(()))) => anyhow!("{name} ended by itself"),
        Err(error) => anyhow!("a part panicked: {error}"),
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
    async fn the_first_part_that_fails_stops_the_others() {
        let mut parts = Components::new(CancellationToken::new()).unwrap();
        parts.start("well", |stop| async move {
            stop.cancelled().await;
            Ok(())
        });
        parts.start("broken", |_| async { Err(anyhow!("no disk")) });
        let error = parts.wait(&clock()).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "broken failed: no disk");
    }

    #[tokio::test]
    async fn a_part_that_just_ends_has_failed() {
        let mut parts = Components::new(CancellationToken::new()).unwrap();
        parts.start("short", |_| async { Ok(()) });
        assert_eq!(
            parts.wait(&clock()).await.unwrap_err().to_string(),
            "short ended by itself"
        );
    }
}
