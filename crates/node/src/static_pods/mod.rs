//! Static pods: pods of files on the node, which run whatever the API has.
//!
//! Each file is one pod. Its uid is a hash of the file, so that a changed file is another pod, and the agent finds the
//! containers of an unchanged one again after a restart. In the API a static pod is shown by its [`mirror`] pod, which has
//! its status; deleting that changes nothing on the node.

mod file;
pub(crate) mod mirror;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use setpoint_api::{Clock, Key};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use file::is_static;

/// How often the folder is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Where static pods come from.
#[derive(Debug, Clone)]
pub struct StaticPodSource {
    /// The folder of the files.
    pub directory: PathBuf,
    /// Decodes YAML or JSON.
    pub decode: fn(&[u8]) -> Result<serde_json::Value, String>,
}

/// The static pods of a node.
#[derive(Debug)]
pub(crate) struct StaticPods {
    source: Option<StaticPodSource>,
    node: String,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What the folder had, by file.
    files: BTreeMap<PathBuf, FileVersion>,
    pods: BTreeMap<Key, Arc<v1::Pod>>,
}

/// By which a change of a file is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileVersion {
    modified: Option<SystemTime>,
    length: u64,
}

impl StaticPods {
    /// The pods of the source's folder now.
    pub(crate) fn new(source: Option<StaticPodSource>, node: &str, clock: Arc<dyn Clock>) -> Self {
        let pods = Self {
            source,
            node: node.to_owned(),
            clock,
            state: Mutex::default(),
        };
        pods.reload();
        pods
    }

    /// The pod of this key.
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<v1::Pod>> {
        self.state.lock().pods.get(key).cloned()
    }

    /// The uids of all of them.
    pub(crate) fn uids(&self) -> Vec<String> {
        let state = self.state.lock();
        state
            .pods
            .values()
            .filter_map(|pod| pod.metadata.uid.clone())
            .collect()
    }

    /// Follows the folder until stopped. Pods that are new, changed or gone are reconciled.
    pub(crate) async fn run(&self, keys: mpsc::Sender<Key>, stop: CancellationToken) {
        let mut changed: Vec<Key> = self.state.lock().pods.keys().cloned().collect();
        loop {
            for key in changed {
                // The queue is closed only when the agent stops.
                let _ = keys.send(key).await;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(INTERVAL) => {}
            }
            changed = self.reload();
        }
    }

    /// Reads the folder if a file in it has changed. Returns the keys of pods that are new, changed or gone.
    fn reload(&self) -> Vec<Key> {
        let Some(source) = &self.source else {
            return Vec::new();
        };
        let files = match list(&source.directory) {
            Ok(files) => files,
            // The pods go on: they are not gone because the folder cannot be read now.
            Err(error) => {
                tracing::error!(directory = %source.directory.display(), %error, "cannot list static pods");
                return Vec::new();
            }
        };
        let mut state = self.state.lock();
        if files == state.files {
            return Vec::new();
        }
        let now = self.clock.now();
        let mut pods = BTreeMap::new();
        for path in files.keys() {
            match file::read(path, source.decode, (&self.node, now)) {
                Ok(pod) => drop(pods.insert(file::key(&pod), Arc::new(pod))),
                Err(error) => tracing::error!(file = %path.display(), error, "cannot use a static pod"),
            }
        }
        let uid = |pods: &BTreeMap<Key, Arc<v1::Pod>>, key: &Key| pods.get(key)?.metadata.uid.clone();
        let keys: BTreeSet<&Key> = pods.keys().chain(state.pods.keys()).collect();
        let changed = keys
            .into_iter()
            .filter(|key| uid(&pods, key) != uid(&state.pods, key));
        let changed = changed.cloned().collect();
        *state = State { files, pods };
        changed
    }
}

/// The files of a folder, without those that are hidden. A folder that does not exist has none.
fn list(directory: &Path) -> io::Result<BTreeMap<PathBuf, FileVersion>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?.collect::<io::Result<Vec<_>>>()?.into_iter(),
    };
    let file = |entry: std::fs::DirEntry| {
        let metadata = std::fs::metadata(entry.path()).ok()?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        (metadata.is_file() && !is_hidden).then(|| {
            let version = FileVersion {
                modified: metadata.modified().ok(),
                length: metadata.len(),
            };
            (entry.path(), version)
        })
    };
    Ok(entries.filter_map(file).collect())
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    fn decode(text: &[u8]) -> Result<serde_json::Value, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    fn write(directory: &Path, file: &str, name: &str, image: &str) {
        let pod = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": [{ "name": "c", "image": image }] },
        });
        std::fs::write(directory.join(file), pod.to_string()).unwrap();
    }

    #[test]
    fn files_that_are_new_changed_or_gone_are_other_pods() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "a.json", "web", "one");
        write(directory.path(), ".hidden", "hidden", "one");
        std::fs::write(directory.path().join("broken.json"), "{").unwrap();
        let source = StaticPodSource {
            directory: directory.path().to_owned(),
            decode,
        };
        let pods = StaticPods::new(Some(source), "N1", Arc::new(SystemClock::new()));
        let key = Key::new("default", "web-n1");
        let first = pods.find(&key).unwrap();
        assert_eq!(pods.uids().len(), 1);
        assert_eq!(pods.reload(), []);
        write(directory.path(), "a.json", "web", "another");
        assert_eq!(pods.reload(), std::slice::from_ref(&key));
        assert_ne!(pods.find(&key).unwrap().metadata.uid, first.metadata.uid);
        std::fs::remove_file(directory.path().join("a.json")).unwrap();
        assert_eq!(pods.reload(), std::slice::from_ref(&key));
        assert_eq!(pods.find(&key), None);
    }

    #[test]
    fn pods_stay_while_their_folder_cannot_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("manifests");
        std::fs::create_dir(&folder).unwrap();
        write(&folder, "a.json", "web", "one");
        let source = StaticPodSource {
            directory: folder.clone(),
            decode,
        };
        let pods = StaticPods::new(Some(source), "n1", Arc::new(SystemClock::new()));
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::write(&folder, "not a folder").unwrap();
        assert_eq!(pods.reload(), []);
        assert_eq!(pods.uids().len(), 1);
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(pods.reload().len(), 1);
        assert_eq!(pods.uids().len(), 0);
    }
}
