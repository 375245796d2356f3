//! Images of a simulated node: every image is present, except those that are configured as unavailable.

use setpoint_container_runtime::image::FileSystemUsage;
use setpoint_container_runtime::{Error, ErrorKind, Image, ImageService, PullCredentials, RuntimeFuture};

use super::{SimulatedRuntime, ready};

impl ImageService for SimulatedRuntime {
    fn image(&self, reference: &str) -> RuntimeFuture<'_, Option<Image>> {
        let image = || Image {
            id: reference.to_owned(),
            tags: vec![reference.to_owned()],
            ..Image::default()
        };
        ready(Ok(self.is_available(reference).then(image)))
    }

    fn pull_image<'a>(
        &'a self,
        reference: &'a str,
        _: Option<&'a PullCredentials>,
    ) -> RuntimeFuture<'a, String> {
        if self.is_available(reference) {
            return ready(Ok(reference.to_owned()));
        }
        let message = format!("image {reference:?} is configured as unavailable on simulated nodes");
        ready(Err(Error::new(ErrorKind::ImagePull, message)))
    }

    fn list_images(&self) -> RuntimeFuture<'_, Vec<Image>> {
        ready(Ok(Vec::new()))
    }

    fn remove_image(&self, _: &str) -> RuntimeFuture<'_, ()> {
        ready(Ok(()))
    }

    fn image_file_system(&self) -> RuntimeFuture<'_, FileSystemUsage> {
        ready(Ok(FileSystemUsage::default()))
    }
}

impl SimulatedRuntime {
    fn is_available(&self, reference: &str) -> bool {
        let unavailable = &self.simulation.unavailable_images;
        !unavailable.iter().any(|prefix| reference.starts_with(prefix))
    }
}
