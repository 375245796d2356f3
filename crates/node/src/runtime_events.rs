//! Events of the runtime, which let the pods that they are about be reconciled.

use setpoint_api::Key;
use setpoint_container_runtime::EventReceiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::pod::record::Records;

/// Reconciles the pods that events are about, until stopped. After missed events that is all pods.
pub(crate) async fn run(
    events: &mut EventReceiver,
    records: &Records,
    keys: mpsc::Sender<Key>,
    stop: CancellationToken,
) {
    while let Some(event) = stop.run_until_cancelled(events.recv()).await {
        let changed = match event {
            Ok(event) => match event.pod_uid {
                Some(uid) => records.wake(&uid).into_iter().collect(),
                None => records.wake_all(),
            },
            Err(RecvError::Lagged(_)) => records.wake_all(),
            Err(RecvError::Closed) => return,
        };
        for key in changed {
            if keys.send(key).await.is_err() {
                return;
            }
        }
    }
}
