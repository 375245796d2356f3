//! Images of containers: the pull policy, and the back-off of images that cannot be pulled.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use setpoint_container_runtime::{Error, ErrorKind, Image};
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::bound_pod::BoundPod;
use super::record::{PullFailure, SharedRecord, WaitingReason};
use super::work::PodExecutor;
use crate::image_pulls::{ImageAccess, PulledWith};

/// After this time a pull that failed is reported as backing off.
const REPORT_BACKOFF_AFTER: Duration = Duration::from_secs(1);

impl PodExecutor {
    /// Pulls the images of the volumes that a container mounts, if their policies require it. `Err` is why the container
    /// waits.
    pub(super) async fn ensure_volume_images(
        &self,
        pod: &BoundPod,
        container: &v1::Container,
        record: &SharedRecord,
        cancel: &CancellationToken,
    ) -> Result<(), WaitingReason> {
        let mounts = container.volume_mounts.iter().flatten();
        let mounted: BTreeSet<&str> = mounts.map(|mount| mount.name.as_str()).collect();
        let volumes = pod.spec().volumes.iter().flatten();
        for volume in volumes.filter(|volume| mounted.contains(volume.name.as_str())) {
            let Some(source) = &volume.image else {
                continue;
            };
            // Policy, back-off and events are those of a container of this name with this image.
            let container = v1::Container {
                name: container.name.clone(),
                image: source.reference.clone(),
                image_pull_policy: source.pull_policy.clone(),
                ..v1::Container::default()
            };
            self.ensure_image(pod, &container, record, cancel).await?;
        }
        Ok(())
    }

    /// The image of a container, pulled if its policy requires it. `Err` is why the container waits.
    pub(super) async fn ensure_image(
        &self,
        pod: &BoundPod,
        container: &v1::Container,
        record: &SharedRecord,
        cancel: &CancellationToken,
    ) -> Result<Image, WaitingReason> {
        let name = container.image.as_deref().unwrap_or_default();
        if !is_reference(name) {
            return Err(self.reject_reference(pod, container, name));
        }
        let policy = container.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
        if policy != "Always" {
            let present = self.runtime.image(name).await;
            let present = present.map_err(|error| self.report_inspection(pod, container, &error))?;
            if let Some(image) = present
                && self.may_use(pod, name, &image).await
            {
                let message = format!(
                    "Container image \"{name}\" already present on machine and can be accessed by the pod"
                );
                self.events.normal(pod, &container.name, "Pulled", message);
                return Ok(image);
            }
        }
        if policy == "Never" {
            let message = format!("Container image \"{name}\" is not present with pull policy of Never");
            let event = message.clone();
            self.events
                .warning(pod, &container.name, "ErrImageNeverPull", event);
            return Err(WaitingReason::new("ErrImageNeverPull", message));
        }
        if let Some(waiting) = self.pull_backoff(pod, container, record) {
            return Err(waiting);
        }
        tokio::select! {
            biased;
            pulled = self.pull(pod, container, record) => pulled,
            () = cancel.cancelled() => Err(WaitingReason::new("ContainerCreating", "")),
        }
    }

    /// Whether the pod may use an image that is present: not one that the agent pulled with credentials that the pod lacks.
    async fn may_use(&self, pod: &BoundPod, name: &str, image: &Image) -> bool {
        let Some(records) = self.setup.pull_records() else {
            return true;
        };
        match records.check(name, &image.id).await {
            ImageAccess::Open => true,
            ImageAccess::Restricted => {
                let credentials = self.pull_credentials(pod, name).await;
                let secrets = credentials.into_iter().map(|one| one.secret).collect();
                let now = self.clock.now();
                records.is_granted(name, &image.id, secrets, now).await
            }
        }
    }

    async fn pull(
        &self,
        pod: &BoundPod,
        container: &v1::Container,
        record: &SharedRecord,
    ) -> Result<Image, WaitingReason> {
        let name = container.image.as_deref().unwrap_or_default();
        let message = format!("Pulling image \"{name}\"");
        self.events.normal(pod, &container.name, "Pulling", message);
        let began = self.clock.now();
        match self.pull_recorded(pod, name).await {
            Ok(id) => {
                record.lock().pulls.remove(name);
                let took = go_seconds(began, self.clock.now());
                let image = self.runtime.image(&id).await.ok().flatten();
                let image = image.unwrap_or_else(|| Image {
                    id,
                    ..Image::default()
                });
                let size = image.size;
                let message = format!(
                    "Successfully pulled image \"{name}\" in {took} ({took} including waiting). Image size: {size} bytes."
                );
                self.events.normal(pod, &container.name, "Pulled", message);
                Ok(image)
            }
            Err(error) => Err(self.pull_failed(pod, container, record, &error)),
        }
    }

    /// Pulls, and records who may use the image from now on. Returns its id.
    async fn pull_recorded(&self, pod: &BoundPod, name: &str) -> Result<String, Error> {
        let records = self.setup.pull_records();
        if let Some(records) = records {
            let begun = records.begin(name).await;
            begun.map_err(|error| {
                let message = format!("failed to record image pull intent: {error}");
                Error::new(ErrorKind::Other, message)
            })?;
        }
        let pulled = self.pull_with_credentials(pod, name).await;
        if let Some(records) = records {
            let pulled = pulled.as_ref().ok();
            let pulled = pulled.map(|(id, pulled_with)| (id.as_str(), pulled_with.clone()));
            records.end(name, pulled, self.clock.now()).await;
        }
        pulled.map(|(id, _)| id)
    }

    /// Pulls with each of the pod's credentials for the registry, and without any if it has none.
    async fn pull_with_credentials(&self, pod: &BoundPod, name: &str) -> Result<(String, PulledWith), Error> {
        let credentials = self.pull_credentials(pod, name).await;
        let mut failed = None;
        for one in credentials {
            match self.runtime.pull_image(name, Some(&one.credentials)).await {
                Ok(id) => return Ok((id, PulledWith::Secret(one.secret))),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let id = self.runtime.pull_image(name, None).await?;
        Ok((id, PulledWith::NoCredentials))
    }

    fn pull_failed(
        &self,
        pod: &BoundPod,
        container: &v1::Container,
        record: &SharedRecord,
        error: &Error,
    ) -> WaitingReason {
        let name = container.image.as_deref().unwrap_or_default();
        let message = format!("Failed to pull image \"{name}\": {error}");
        self.events.warning(pod, &container.name, "Failed", message);
        let waiting = match error.kind {
            ErrorKind::RegistryUnavailable => WaitingReason::new(
                "RegistryUnavailable",
                format!("image pull failed for {name} because the registry is unavailable: {error}"),
            ),
            ErrorKind::SignatureValidation => WaitingReason::new(
                "SignatureValidationFailed",
                format!("image pull failed for {name} because the signature validation failed: {error}"),
            ),
            ErrorKind::InvalidImageName => WaitingReason::new("InvalidImageName", error.to_string()),
            _ => WaitingReason::new("ErrImagePull", error.to_string()),
        };
        let message = format!("Error: {}", waiting.reason);
        self.events.warning(pod, &container.name, "Failed", message);
        let now = self.clock.now();
        let mut record = record.lock();
        let previous = record.pulls.get(name).map(|failure| failure.backoff);
        let failure = PullFailure {
            backoff: Backoff::after(previous, now, now),
            failed: now,
            waiting: waiting.clone(),
        };
        record.pulls.insert(name.to_owned(), failure);
        let report_at = now.saturating_add(REPORT_BACKOFF_AFTER).unwrap_or(now);
        record.retries.insert(container.name.clone(), report_at);
        waiting
    }

    /// Why the pull of an image that failed before waits.
    fn pull_backoff(
        &self,
        pod: &BoundPod,
        container: &v1::Container,
        record: &SharedRecord,
    ) -> Option<WaitingReason> {
        let name = container.image.as_deref().unwrap_or_default();
        let mut record = record.lock();
        let failure = record.pulls.get(name)?.clone();
        let until = failure.backoff.waits_until(failure.failed, self.clock.now())?;
        record.retries.insert(container.name.clone(), until);
        drop(record);
        let message = format!("Back-off pulling image \"{name}\"");
        self.events
            .normal(pod, &container.name, "BackOff", message.clone());
        let message = format!(
            "{message}: {}: {}",
            failure.waiting.reason, failure.waiting.message
        );
        self.events
            .warning(pod, &container.name, "Failed", "Error: ImagePullBackOff");
        Some(WaitingReason::new("ImagePullBackOff", message))
    }

    fn reject_reference(&self, pod: &BoundPod, container: &v1::Container, name: &str) -> WaitingReason {
        let message = format!(
            "Failed to apply default image tag \"{name}\": couldn't parse image name \"{name}\": invalid reference format"
        );
        let event = message.clone();
        self.events.warning(pod, &container.name, "InspectFailed", event);
        self.events
            .warning(pod, &container.name, "Failed", "Error: InvalidImageName");
        WaitingReason::new("InvalidImageName", message)
    }

    fn report_inspection(&self, pod: &BoundPod, container: &v1::Container, error: &Error) -> WaitingReason {
        let name = container.image.as_deref().unwrap_or_default();
        let message = format!("Failed to inspect image \"{name}\": {error}");
        let event = message.clone();
        self.events.warning(pod, &container.name, "InspectFailed", event);
        WaitingReason::new("ImageInspectError", message)
    }
}

/// Whether the text can name an image: a path in lower case with an optional host, tag and digest.
fn is_reference(name: &str) -> bool {
    let (path, digest) = name
        .split_once('@')
        .map_or((name, None), |(path, digest)| (path, Some(digest)));
    let tag_at = path.rfind(':').filter(|at| !path[*at..].contains('/'));
    let (repository, tag) = tag_at.map_or((path, None), |at| (&path[..at], Some(&path[at + 1..])));
    let host_ends = repository.find('/').filter(|at| is_host(&repository[..*at]));
    let path = host_ends.map_or(repository, |at| &repository[at + 1..]);
    let is_path_byte =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let is_segment = |segment: &str| {
        segment.bytes().all(is_path_byte)
            && segment.starts_with(|first: char| first.is_ascii_alphanumeric())
            && segment.ends_with(|last: char| last.is_ascii_alphanumeric())
    };
    let is_tag_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    path.split('/').all(is_segment)
        && tag.is_none_or(|tag| !tag.is_empty() && tag.len() <= 128 && tag.bytes().all(is_tag_byte))
        && digest.is_none_or(|digest| digest.split_once(':').is_some_and(|(_, hex)| hex.len() >= 32))
}

fn is_host(text: &str) -> bool {
    text == "localhost" || text.contains(['.', ':']) || text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// The time between the two, in Go's form of seconds.
fn go_seconds(began: Timestamp, ended: Timestamp) -> String {
    let took = Duration::try_from(ended.duration_since(began)).unwrap_or_default();
    match took.as_millis() {
        millis if millis < 1000 => format!("{millis}ms"),
        millis => format!("{}.{:03}s", millis / 1000, millis % 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: bool) {
        assert_eq!(is_reference(name), expected, "{name}");
    }

    #[test]
    fn an_image_name_is_a_reference_or_invalid() {
        check("nginx", true);
        check("nginx:1.27", true);
        check("localhost:5000/a/b_c:v1", true);
        check("registry.example/a@sha256:0123456789abcdef0123456789abcdef", true);
        check("", false);
        check("Nginx", false);
        check("a:b:c/", false);
        check("nginx:", false);
        check("nginx@", false);
    }
}
