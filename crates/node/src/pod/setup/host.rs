//! [`HostSetup`]: volumes, files and configurations of containers on this machine.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use setpoint_container_runtime::{ContainerConfig, ContainerRecord, ContainerState, SandboxConfig};

use super::super::bound_pod::BoundPod;
use super::super::observed::ObservedPod;
use super::super::plan::{CONTAINER_HASH, container_hash};
use super::ContainerSetup;
use crate::cgroups::CgroupManager;
use crate::container_config::{
    ContainerRequest, ImageFacts, NodeFacts, container_config, files, sandbox_config,
    termination_message_path,
};
use crate::image_pulls::PullRecords;
use crate::logs::Entry;
use crate::volumes::{MountedVolumes, VolumeManager};

/// At most this much of a termination message is reported.
const MAX_MESSAGE_BYTES: u64 = 4096;
/// At most this much of a log is reported instead, and at most this many lines.
const MAX_LOG_BYTES: usize = 2048;
const MAX_LOG_LINES: usize = 80;
/// So much of the end of a log is read for that: a runtime cuts lines at 16 KiB.
const LOG_TAIL_BYTES: u64 = 64 << 10;

/// Prepares pods on this machine.
#[derive(Debug)]
pub(crate) struct HostSetup {
    pub(crate) volumes: Arc<VolumeManager>,
    pub(crate) node: Arc<NodeFacts>,
    pub(crate) pull_records: PullRecords,
    /// `None` if this machine's cgroups cannot be written.
    pub(crate) cgroups: Option<CgroupManager>,
}

impl HostSetup {
    pub(super) fn ensure_cgroup(&self, pod: &BoundPod) -> Result<(), String> {
        let Some(cgroups) = &self.cgroups else {
            return Ok(());
        };
        let created = cgroups.ensure(&pod.object, &self.node);
        created.map_err(|error| format!("unable to ensure pod container exists: {error}"))
    }

    pub(super) async fn mount(&self, pod: &BoundPod) -> Result<MountedVolumes, String> {
        let mounted = self.volumes.mount(&pod.object).await;
        mounted.map_err(|error| error.to_string())
    }

    pub(super) async fn unmount(&self, uid: &str) {
        if let Err(error) = self.volumes.unmount(uid).await {
            tracing::warn!(%uid, %error, "cannot remove the volumes of a pod");
        }
    }

    pub(super) fn sandbox_config(&self, pod: &BoundPod, attempt: u32) -> Result<SandboxConfig, String> {
        let config = sandbox_config(&pod.object, &self.node).map_err(|error| error.to_string())?;
        Ok(SandboxConfig { attempt, ..config })
    }

    pub(super) async fn container_config(
        &self,
        setup: ContainerSetup<'_>,
    ) -> Result<ContainerConfig, String> {
        let (pod, container) = (&setup.pod.object, setup.pod.container(setup.at));
        let sources = self.volumes.env_sources(pod, container).await;
        let image = ImageFacts {
            reference: setup.image.id.clone(),
            uid: setup.image.uid,
            username: setup.image.username.clone(),
        };
        let prepared = files::prepare_pod(pod, &self.node, setup.addresses)
            .and_then(|()| files::prepare_container(pod, &self.node, container, setup.attempt));
        prepared.map_err(|error| error.to_string())?;
        let config = container_config(ContainerRequest {
            pod,
            container,
            node: &self.node,
            attempt: setup.attempt,
            image: &image,
            pod_addresses: setup.addresses,
            volumes: setup.volumes,
            sources: &sources,
            target: setup.target,
        });
        let mut config = config.map_err(|error| error.to_string())?;
        config
            .annotations
            .insert(CONTAINER_HASH.to_owned(), container_hash(container));
        Ok(config)
    }

    pub(super) fn add_termination_messages(&self, pod: &BoundPod, observed: &mut ObservedPod) {
        for record in &mut observed.containers {
            let Some((_, container)) = pod.find_container(&record.name) else {
                continue;
            };
            let message = self.termination_message(pod, container, record);
            if let ContainerState::Exited(exit) = &mut record.state
                && !message.is_empty()
            {
                exit.message = match exit.message.is_empty() {
                    true => message,
                    false => format!("{}: {message}", exit.message),
                };
            }
        }
    }

    /// What a container that exited wrote to its termination message file, or else the end of its log, if its policy
    /// allows it.
    fn termination_message(
        &self,
        pod: &BoundPod,
        container: &v1::Container,
        record: &ContainerRecord,
    ) -> String {
        let ContainerState::Exited(exit) = &record.state else {
            return String::new();
        };
        let path = termination_message_path(&self.node.root, pod.uid(), &record.name, record.attempt);
        let message = read_start(&path);
        let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        match message.is_empty() && falls_back && exit.exit_code != 0 {
            true => log_end(Path::new(&record.log_path)),
            false => message,
        }
    }
}

fn read_start(path: &Path) -> String {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(MAX_MESSAGE_BYTES).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

/// The end of a file, from the beginning of a line.
fn read_end(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(LOG_TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    let first_end = bytes.iter().position(|byte| *byte == b'\n');
    if let (1.., Some(first_end)) = (start, first_end) {
        bytes.drain(..=first_end);
    }
    Ok(bytes)
}

/// The last lines of a log. A last line that the container did not end has no end in the text either.
fn log_end(path: &Path) -> String {
    let log = read_end(path).unwrap_or_default();
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let last = &lines[lines.len().saturating_sub(MAX_LOG_LINES)..];
    let entries = last.iter().filter_map(|line| Entry::parse(line));
    let text = entries.map(|entry| entry.text).collect::<Vec<_>>().concat();
    let text = String::from_utf8_lossy(&text);
    let mut start = text.len().saturating_sub(MAX_LOG_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_its_text() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let lines: String = (0..100)
            .map(|n| format!("2026-01-01T00:00:00Z stderr F line {n}\n"))
            .collect();
        std::fs::write(&path, lines).unwrap();
        let end = log_end(&path);
        assert!(
            end.starts_with("line 20\n") && end.ends_with("line 99\n"),
            "{end}"
        );
    }

    #[test]
    fn the_end_of_a_large_log_is_read_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let line = |text: &[u8]| [b"2026-01-01T00:00:00Z stderr F ", text, b"\n"].concat();
        let lines = [line(&[b'x'; 1 << 20]), line(b"not \xff UTF-8"), line(b"last")];
        std::fs::write(&path, lines.concat()).unwrap();
        assert_eq!(log_end(&path), "not \u{fffd} UTF-8\nlast\n");
        assert!(read_end(&path).unwrap().len() < 1 << 17);
    }

    #[test]
    fn a_last_line_without_its_end_is_read_without_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let log = "2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:00Z stdout P DONE\n";
        std::fs::write(&path, log).unwrap();
        assert_eq!(log_end(&path), "one\nDONE");
    }
}
