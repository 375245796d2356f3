//! Which images the agent pulled, and with which credentials: a pod uses an image that is present only if it was there
//! before, is public, or the pod has credentials for it.
//!
//! It is the kubelet's verification with its default policy, NeverVerifyPreloadedImages
//! (`pkg/kubelet/images/pullmanager`). A record is a file in `image_manager/pulled` below the agent's root, named by the
//! runtime's id of the image; while a pull is in progress there is a file in `image_manager/pulling`, so that an agent that
//! is killed meanwhile does not take the image for one that was there before.
//!
//! Start reading at [`PullRecords::check`]; [`record`] has the rules.

mod record;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_container_runtime::{Error, Image, Runtime};

use record::{PulledImage, file_name};

pub(crate) use record::{PullSecret, PulledWith, credential_hash};

/// The records of the images that the agent pulled.
#[derive(Debug)]
pub(crate) struct PullRecords {
    files: Arc<Mutex<RecordFiles>>,
}

/// Whether a pod may use an image that is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageAccess {
    /// Every pod may.
    Open,
    /// Only a pod with credentials.
    Restricted,
}

/// The files of the records. The lock on it lets a record be read and written by one caller at a time.
#[derive(Debug)]
struct RecordFiles {
    pulled: PathBuf,
    pulling: PathBuf,
    /// How many pulls of an image are in progress, by its name. One that was cancelled stays counted: the runtime may have
    /// completed it.
    in_progress: HashMap<String, usize>,
}

// === impl PullRecords ===

impl PullRecords {
    /// The records below the agent's root.
    pub(crate) fn new(root: &Path) -> Self {
        let directory = root.join("image_manager");
        let files = RecordFiles {
            pulled: directory.join("pulled"),
            pulling: directory.join("pulling"),
            in_progress: HashMap::new(),
        };
        Self {
            files: Arc::new(Mutex::new(files)),
        }
    }

    /// Records that a pull begins.
    pub(crate) async fn begin(&self, name: &str) -> io::Result<()> {
        let name = name.to_owned();
        self.run(move |files| files.begin(&name)).await
    }

    /// Records that the pull of an image has ended, and how it was pulled if it succeeded. What cannot be written leaves the
    /// pull in progress, so that the image is verified.
    pub(crate) async fn end(&self, name: &str, pulled: Option<(&str, PulledWith)>, now: Timestamp) {
        let owned = name.to_owned();
        let pulled = pulled.map(|(id, pulled_with)| (id.to_owned(), pulled_with));
        let ended = self.run(move |files| {
            if let Some((id, pulled_with)) = pulled {
                files.add(&owned, &id, Some(pulled_with), now)?;
            }
            files.end(&owned)
        });
        if let Err(error) = ended.await {
            tracing::warn!(image = name, %error, "cannot record the pull of an image");
        }
    }

    /// Whether every pod may use an image that is present. A record that cannot be read restricts it.
    pub(crate) async fn check(&self, name: &str, id: &str) -> ImageAccess {
        let (owned, id) = (name.to_owned(), id.to_owned());
        let is_open = self.run(move |files| match files.read(&id)? {
            Some(image) => Ok(image.is_open(&repository(&owned))),
            None => Ok(!files.is_in_progress(&owned)),
        });
        match is_open.await {
            Ok(true) => ImageAccess::Open,
            Ok(false) => ImageAccess::Restricted,
            Err(error) => {
                tracing::warn!(image = name, %error, "cannot read how an image was pulled");
                ImageAccess::Restricted
            }
        }
    }

    /// Whether one of a pod's Secrets grants access to a restricted image. That Secret is recorded as it is now.
    pub(crate) async fn is_granted(
        &self,
        name: &str,
        id: &str,
        secrets: Vec<PullSecret>,
        now: Timestamp,
    ) -> bool {
        let (owned, id) = (name.to_owned(), id.to_owned());
        let granted = self.run(move |files| {
            let repository = repository(&owned);
            let Some(image) = files.read(&id)? else {
                return Ok(false);
            };
            let Some(secret) = image.find_granting(&repository, &secrets) else {
                return Ok(false);
            };
            if image.has_capacity(&repository) {
                files.add(&owned, &id, Some(PulledWith::Secret(secret.clone())), now)?;
            }
            Ok(true)
        });
        let granted = granted.await;
        let granted =
            granted.inspect_err(|error| tracing::warn!(image = name, %error, "cannot verify a Secret"));
        granted.unwrap_or(false)
    }

    /// Records the images whose pull was in progress when the previous agent ended, with nothing that grants access.
    pub(crate) async fn recover(&self, runtime: &dyn Runtime, now: Timestamp) -> Result<(), Error> {
        let in_progress = self.run(|files| files.names_in_progress()).await;
        let in_progress = in_progress.unwrap_or_default();
        if in_progress.is_empty() {
            return Ok(());
        }
        let images = runtime.list_images().await?;
        let recovered = self.run(move |files| files.recover(&in_progress, &images, now));
        if let Err(error) = recovered.await {
            tracing::warn!(%error, "cannot record images whose pull was interrupted");
        }
        Ok(())
    }

    /// Removes the records of images that the runtime did not have at this time.
    pub(crate) async fn retain(&self, images: &[Image], listed_at: Timestamp) {
        let ids: Vec<String> = images.iter().map(|image| image.id.clone()).collect();
        let retained = self.run(move |files| files.retain(&ids, listed_at));
        if let Err(error) = retained.await {
            tracing::warn!(%error, "cannot remove the records of images that are gone");
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut RecordFiles) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let files = self.files.clone();
        let work = tokio::task::spawn_blocking(move || work(&mut files.lock()));
        work.await.map_err(io::Error::other)?
    }
}

// === impl RecordFiles ===

impl RecordFiles {
    fn begin(&mut self, name: &str) -> io::Result<()> {
        write(&self.pulling, &file_name(name), name.as_bytes())?;
        *self.in_progress.entry(name.to_owned()).or_default() += 1;
        Ok(())
    }

    fn end(&mut self, name: &str) -> io::Result<()> {
        let count = self
            .in_progress
            .get(name)
            .map_or(0, |count| count.saturating_sub(1));
        if count > 0 {
            self.in_progress.insert(name.to_owned(), count);
            return Ok(());
        }
        self.in_progress.remove(name);
        remove(&self.pulling.join(file_name(name)))
    }

    fn is_in_progress(&self, name: &str) -> bool {
        self.in_progress.contains_key(name) || self.pulling.join(file_name(name)).exists()
    }

    fn names_in_progress(&self) -> io::Result<Vec<String>> {
        let files = files_in(&self.pulling)?;
        files.iter().map(std::fs::read_to_string).collect()
    }

    fn recover(&mut self, names: &[String], images: &[Image], now: Timestamp) -> io::Result<()> {
        for name in names {
            let (repository, version) = parse(name);
            let is_named = |image: &&Image| {
                let mut own = image.tags.iter().chain(&image.digests).map(|own| parse(own));
                own.any(|own| own == (repository.clone(), version))
            };
            if let Some(image) = images.iter().find(is_named) {
                self.add(name, &image.id, None, now)?;
                self.end(name)?;
            }
        }
        Ok(())
    }

    /// The record of an image, by the runtime's id.
    fn read(&self, id: &str) -> io::Result<Option<PulledImage>> {
        match std::fs::read(self.pulled.join(file_name(id))) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn add(&self, name: &str, id: &str, pulled: Option<PulledWith>, now: Timestamp) -> io::Result<()> {
        // A record that cannot be read is written again.
        let known = self.read(id).ok().flatten();
        let is_new = known.is_none();
        let mut image = known.unwrap_or_else(|| PulledImage::new(id, now));
        let is_changed = pulled.is_some_and(|pulled| image.add(&repository(name), pulled, now));
        match is_new || is_changed {
            true => write(&self.pulled, &file_name(id), &serde_json::to_vec(&image)?),
            false => Ok(()),
        }
    }

    fn retain(&mut self, ids: &[String], listed_at: Timestamp) -> io::Result<()> {
        for file in files_in(&self.pulled)? {
            let image: Option<PulledImage> = serde_json::from_slice(&std::fs::read(&file)?).ok();
            let is_gone =
                |image: &PulledImage| image.last_updated_time < listed_at && !ids.contains(&image.image_ref);
            if image.as_ref().is_some_and(is_gone) {
                remove(&file)?;
            }
        }
        Ok(())
    }
}

/// Writes a file as a whole: a reader never sees a part of it.
fn write(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let temporary = directory.join(format!("{name}.tmp"));
    std::fs::write(&temporary, content)?;
    std::fs::rename(&temporary, directory.join(name))
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The files of a directory, without those that were being written.
fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: io::Result<Vec<PathBuf>> = paths.collect();
    let is_temporary = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "tmp");
    Ok(paths?.into_iter().filter(|path| !is_temporary(path)).collect())
}

/// The repository of an image with its registry, as in `docker.io/library/busybox`.
fn repository(name: &str) -> String {
    parse(name).0
}

/// The repository of an image with its registry, and its tag or digest.
fn parse(name: &str) -> (String, &str) {
    let (path, version) = match (name.split_once('@'), name.rfind(':')) {
        (Some((path, digest)), _) => (without_tag(path), digest),
        (None, Some(at)) if !name[at..].contains('/') => (&name[..at], &name[at + 1..]),
        _ => (name, "latest"),
    };
    let (registry, path) = registry_of(path);
    let is_official = registry == DOCKER_HUB[0] && !path.contains('/');
    let prefix = if is_official { "library/" } else { "" };
    (format!("{registry}/{prefix}{path}"), version)
}

fn without_tag(path: &str) -> &str {
    match path.rfind(':') {
        Some(at) if !path[at..].contains('/') => &path[..at],
        _ => path,
    }
}

/// Docker Hub, by the names that images and credentials use for it.
pub(crate) const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// The registry and the repository of an image, which is one of Docker Hub without a host.
pub(crate) fn registry_of(image: &str) -> (&str, &str) {
    match image.split_once('/') {
        Some((host, rest)) if host == "localhost" || host.contains(['.', ':']) => (host, rest),
        _ => (DOCKER_HUB[0], image),
    }
}

#[cfg(test)]
mod tests;
