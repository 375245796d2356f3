//! What a handler was told, checked as it comes: every change follows from the one before it, none comes twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Change, ResourceVersion, Stored};
use setpoint_runtime::informer::Notice;
use tokio::sync::Notify;

/// The diary of one handler.
#[derive(Debug, Clone, Default)]
pub struct Diary {
    told: Arc<Mutex<Told>>,
    more: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Told {
    known: BTreeMap<String, ResourceVersion>,
    /// What did not follow. A panic in a handler would only be logged.
    wrong: Vec<String>,
}

impl Diary {
    /// The handler that writes it.
    pub fn handler(&self) -> impl FnMut(Notice<'_>) + Send + 'static {
        let own = self.clone();
        move |notice| {
            own.told.lock().note(notice);
            own.more.notify_one();
        }
    }

    /// Resolves once what the handler knows is so.
    pub async fn until(&self, is_so: impl Fn(&BTreeMap<String, ResourceVersion>) -> bool) {
        while !is_so(&self.told.lock().known) {
            self.more.notified().await;
        }
    }

    /// The newest version that the handler was told of each object that is there.
    pub fn known(&self) -> BTreeMap<String, ResourceVersion> {
        self.told.lock().known.clone()
    }

    /// What did not follow from what came before.
    pub fn wrong(&self) -> Vec<String> {
        self.told.lock().wrong.clone()
    }
}

impl Told {
    fn note(&mut self, notice: Notice<'_>) {
        let name = |object: &Stored| object.key().name().to_owned();
        let (before, expected) = match notice {
            Notice::Present(new) | Notice::Changed(Change::Added(new)) => {
                (self.known.insert(name(new), new.resource_version()), None)
            }
            Notice::Changed(Change::Modified { old, new }) => {
                let before = self.known.insert(name(new), new.resource_version());
                let grew = new.resource_version() > old.resource_version();
                (before, grew.then(|| old.resource_version()))
            }
            Notice::Changed(Change::Deleted { old, .. }) => {
                (self.known.remove(&name(old)), Some(old.resource_version()))
            }
            // So few changes are all kept.
            Notice::Gap => (None, Some(ResourceVersion::ZERO)),
        };
        if before != expected {
            self.wrong.push(format!("{notice:?} after {before:?}"));
        }
    }
}
