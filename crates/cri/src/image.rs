//! Images over CRI.

use std::time::Duration;

use prost::Message;
use setpoint_container_runtime::image::FileSystemUsage;
use setpoint_container_runtime::{Error, ErrorKind, Image, ImageService, PullCredentials, RuntimeFuture};

use crate::cri::{CALL_TIMEOUT, Cri};
use crate::error::{from_pull_status, from_status};
use crate::proto::{Empty, image as proto};
use crate::sandbox::ignore_absent;
use setpoint_grpc::Status;

/// How long a pull may take. The runtime itself ends a pull that makes no progress.
const PULL_TIMEOUT: Duration = Duration::from_secs(60 * 60);

impl ImageService for Cri {
    fn image(&self, reference: &str) -> RuntimeFuture<'_, Option<Image>> {
        let request = proto::ImageStatusRequest {
            image: Some(spec(reference)),
        };
        Box::pin(async move {
            let response: proto::ImageStatusResponse = self.images("ImageStatus", &request).await?;
            Ok(response.image.map(decode))
        })
    }

    fn pull_image<'a>(
        &'a self,
        reference: &'a str,
        credentials: Option<&'a PullCredentials>,
    ) -> RuntimeFuture<'a, String> {
        let request = proto::PullImageRequest {
            image: Some(spec(reference)),
            auth: credentials.map(encode_credentials),
        };
        Box::pin(async move {
            let pulled = self.images_within("PullImage", &request, PULL_TIMEOUT).await;
            let response: proto::PullImageResponse = pulled.map_err(|status| from_pull_status(&status))?;
            Ok(response.image_ref)
        })
    }

    fn list_images(&self) -> RuntimeFuture<'_, Vec<Image>> {
        Box::pin(async move {
            let response: proto::ListImagesResponse = self.images("ListImages", &Empty {}).await?;
            Ok(response.images.into_iter().map(decode).collect())
        })
    }

    fn remove_image(&self, reference: &str) -> RuntimeFuture<'_, ()> {
        let request = proto::RemoveImageRequest {
            image: Some(spec(reference)),
        };
        Box::pin(async move { ignore_absent(self.images("RemoveImage", &request).await) })
    }

    fn image_file_system(&self) -> RuntimeFuture<'_, FileSystemUsage> {
        Box::pin(async move {
            let response: proto::ImageFsInfoResponse = self.images("ImageFsInfo", &Empty {}).await?;
            let usage = response.image_filesystems.into_iter().next().unwrap_or_default();
            Ok(FileSystemUsage {
                path: usage.fs_id.unwrap_or_default().mountpoint,
                used_bytes: usage.used_bytes.unwrap_or_default().value,
                used_inodes: usage.inodes_used.unwrap_or_default().value,
            })
        })
    }
}

impl Cri {
    async fn images<Q: Message, A: Message + Default>(&self, method: &str, request: &Q) -> Result<A, Error> {
        let called = self.images_within(method, request, CALL_TIMEOUT).await;
        called.map_err(|status| from_status(&status, ErrorKind::Other))
    }

    async fn images_within<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
        timeout: Duration,
    ) -> Result<A, Status> {
        let method = format!("runtime.v1.ImageService/{method}");
        self.channel.unary(&method, request, timeout, Vec::new()).await
    }
}

fn spec(reference: &str) -> proto::ImageSpec {
    proto::ImageSpec {
        image: reference.to_owned(),
        user_specified_image: String::new(),
    }
}

fn encode_credentials(credentials: &PullCredentials) -> proto::AuthConfig {
    proto::AuthConfig {
        username: credentials.username.clone(),
        password: credentials.password.clone(),
        auth: credentials.auth.clone(),
        server_address: credentials.server_address.clone(),
        identity_token: credentials.identity_token.clone(),
        registry_token: credentials.registry_token.clone(),
    }
}

fn decode(image: proto::Image) -> Image {
    Image {
        id: image.id,
        tags: image.repo_tags,
        digests: image.repo_digests,
        size: image.size,
        uid: image.uid.map(|uid| uid.value),
        username: image.username,
        pinned: image.pinned,
    }
}
