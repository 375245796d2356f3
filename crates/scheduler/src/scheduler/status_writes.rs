//! [`StatusWrites`]: the order of the status writes of each pod.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use tokio::sync::watch;

use crate::pod_info::PodInfo;
use crate::report::FailureReport;

/// The pods whose status is being written. Of two concurrent writes the older report could be the last, so that each pod has
/// one write at a time.
///
/// For example, while the first report of a pod is written, two more are made:
///
/// ```text
/// first:  "Too many pods"        starts
/// second: "Insufficient cpu"     waits
/// third:  "Insufficient memory"  replaces the second, and starts once the first has ended
/// ```
#[derive(Debug, Default)]
pub(super) struct StatusWrites {
    /// By the uid of the pod.
    in_flight: HashMap<CompactString, Writes>,
}

/// The writes of one pod: one is in flight.
#[derive(Debug)]
struct Writes {
    /// The write that follows it.
    next: Option<StatusWrite>,
    /// Dropped once all writes have ended.
    pending: watch::Sender<()>,
}

/// A report to be written to the status of a pod.
#[derive(Debug)]
pub(super) struct StatusWrite {
    pub(super) pod: Arc<PodInfo>,
    pub(super) report: FailureReport,
}

impl StatusWrites {
    /// Returns the write if it can start now; else it follows the one in flight.
    pub(super) fn begin(&mut self, write: StatusWrite) -> Option<StatusWrite> {
        let Some(writes) = self.in_flight.get_mut(&write.pod.uid) else {
            let writes = Writes {
                next: None,
                pending: watch::Sender::new(()),
            };
            self.in_flight.insert(write.pod.uid.clone(), writes);
            return Some(write);
        };
        writes.next = Some(write.replacing(writes.next.take()));
        None
    }

    /// Resolves once the writes of the pod with this uid have ended; `None` if there are none. A binding waits for them: it may
    /// write the node that the pod is nominated to, which the report of an earlier attempt would clear.
    pub(super) fn ended(&self, uid: &str) -> Option<impl Future<Output = ()> + Send + use<>> {
        let mut pending = self.in_flight.get(uid)?.pending.subscribe();
        Some(async move { while pending.changed().await.is_ok() {} })
    }

    /// Ends a write of the pod with this uid. Returns the one to start now.
    pub(super) fn end(&mut self, uid: &str) -> Option<StatusWrite> {
        let next = self.in_flight.get_mut(uid)?.next.take();
        if next.is_none() {
            self.in_flight.remove(uid);
        }
        next
    }
}

impl StatusWrite {
    /// A report that leaves the nomination keeps the change of the one that it replaces.
    fn replacing(mut self, old: Option<Self>) -> Self {
        let nominated = old.and_then(|old| old.report.nominated_node);
        self.report.nominated_node = self.report.nominated_node.or(nominated);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::fixtures::pod;

    fn write(pod_name: &str, message: &str, nominated: Option<&str>) -> StatusWrite {
        StatusWrite {
            pod: Arc::new(pod(pod_name, "")),
            report: FailureReport {
                reason: "Unschedulable",
                message: message.to_owned(),
                nominated_node: nominated.map(str::to_owned),
            },
        }
    }

    fn describe(write: Option<StatusWrite>) -> Option<(String, Option<String>)> {
        write.map(|write| (write.report.message, write.report.nominated_node))
    }

    #[test]
    fn the_newest_report_follows_the_one_in_flight() {
        let mut writes = StatusWrites::default();
        let uid = pod("p", "").uid;
        assert!(writes.begin(write("p", "first", None)).is_some());
        assert!(writes.begin(write("p", "second", Some("a"))).is_none());
        assert!(writes.begin(write("p", "third", None)).is_none());
        let next = describe(writes.end(&uid));
        assert_eq!(next, Some(("third".to_owned(), Some("a".to_owned()))));
        assert!(writes.begin(write("p", "fourth", None)).is_none());
        assert_eq!(describe(writes.end(&uid)), Some(("fourth".to_owned(), None)));
        assert!(writes.end(&uid).is_none());
        assert!(writes.begin(write("p", "fifth", None)).is_some());
    }

    #[test]
    fn a_binding_waits_for_all_reports_of_its_pod() {
        let mut writes = StatusWrites::default();
        let uid = pod("p", "").uid;
        assert!(writes.ended(&uid).is_none());
        writes.begin(write("p", "first", None));
        writes.begin(write("p", "second", None));
        let mut ended = pin!(writes.ended(&uid).unwrap());
        let mut context = Context::from_waker(Waker::noop());
        assert!(ended.as_mut().poll(&mut context).is_pending());
        writes.end(&uid);
        assert!(ended.as_mut().poll(&mut context).is_pending());
        writes.end(&uid);
        assert!(ended.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn the_writes_of_other_pods_start_at_once() {
        let mut writes = StatusWrites::default();
        assert!(writes.begin(write("p", "first", None)).is_some());
        assert!(writes.begin(write("q", "first", None)).is_some());
    }
}
