//! [`NotificationRecorder`]: an informer event handler that checks its notifications: every change follows from the one
//! before it, none is delivered twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Change, ResourceVersion, Stored};
use setpoint_runtime::informer::Event;
use tokio::sync::Notify;

/// Records the notifications of one handler. Cloning shares the record.
#[derive(Debug, Clone, Default)]
pub struct NotificationRecorder {
    state: Arc<Mutex<RecorderState>>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct RecorderState {
    versions: BTreeMap<String, ResourceVersion>,
    /// Notifications that did not follow from those before. A panic in a handler would only be logged.
    violations: Vec<String>,
}

impl NotificationRecorder {
    /// The handler to register with an informer.
    pub fn handler(&self) -> impl FnMut(Event<'_>) + Send + 'static {
        let own = self.clone();
        move |notice| {
            own.state.lock().record(notice);
            own.changed.notify_one();
        }
    }

    /// Resolves once the versions fulfil the condition.
    pub async fn until(&self, is_so: impl Fn(&BTreeMap<String, ResourceVersion>) -> bool) {
        while !is_so(&self.state.lock().versions) {
            self.changed.notified().await;
        }
    }

    /// The newest notified version of each object that exists.
    pub fn versions(&self) -> BTreeMap<String, ResourceVersion> {
        self.state.lock().versions.clone()
    }

    /// Notifications that did not follow from those before.
    pub fn violations(&self) -> Vec<String> {
        self.state.lock().violations.clone()
    }
}

impl RecorderState {
    fn record(&mut self, notice: Event<'_>) {
        let name = |object: &Stored| object.key().name().to_owned();
        let (before, expected) = match notice {
            Event::Present(new) | Event::Changed(Change::Added(new)) => {
                (self.versions.insert(name(new), new.resource_version()), None)
            }
            Event::Changed(Change::Modified { old, new }) => {
                let before = self.versions.insert(name(new), new.resource_version());
                let grew = new.resource_version() > old.resource_version();
                (before, grew.then(|| old.resource_version()))
            }
            Event::Changed(Change::Deleted { old, .. }) => {
                (self.versions.remove(&name(old)), Some(old.resource_version()))
            }
            // Tests make few changes: none is trimmed from the history.
            Event::Gap => (None, Some(ResourceVersion::ZERO)),
        };
        if before != expected {
            self.violations.push(format!("{notice:?} after {before:?}"));
        }
    }
}
