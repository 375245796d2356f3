//! Images.

use crate::RuntimeFuture;

/// Pulls, lists and removes images.
pub trait ImageService {
    /// The image, if it is present. The reference is a name, a digest reference or an id.
    fn image(&self, reference: &str) -> RuntimeFuture<'_, Option<Image>>;

    /// Pulls the image. Returns its id.
    fn pull_image<'a>(
        &'a self,
        reference: &'a str,
        credentials: Option<&'a PullCredentials>,
    ) -> RuntimeFuture<'a, String>;

    /// All images.
    fn list_images(&self) -> RuntimeFuture<'_, Vec<Image>>;

    /// Removes the image with all its names.
    fn remove_image(&self, reference: &str) -> RuntimeFuture<'_, ()>;

    /// The disk use of images.
    fn image_file_system(&self) -> RuntimeFuture<'_, FileSystemUsage>;
}

/// An image on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The id: the digest of its configuration.
    pub id: String,
    /// Its names.
    pub tags: Vec<String>,
    /// Its names with a digest.
    pub digests: Vec<String>,
    /// Its size in bytes.
    pub size: u64,
    /// The user that it runs as by default, if that is a number.
    pub uid: Option<i64>,
    /// The user that it runs as by default, if that is a name.
    pub username: String,
    /// Whether the runtime keeps it: the sandboxes' own image.
    pub pinned: bool,
}

/// The credentials of a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct PullCredentials {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
    /// `username:password` in base64, instead of the two.
    pub auth: String,
    /// The registry they are for.
    pub server_address: String,
    /// A token that is exchanged for an access token.
    pub identity_token: String,
    /// A bearer token sent to the registry.
    pub registry_token: String,
}

impl std::fmt::Debug for PullCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let server = &self.server_address;
        f.debug_struct("PullCredentials")
            .field("server_address", server)
            .finish_non_exhaustive()
    }
}

/// The use of a file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSystemUsage {
    /// The mount point or a path on it.
    pub path: String,
    /// Bytes used by images.
    pub used_bytes: u64,
    /// Inodes used by images.
    pub used_inodes: u64,
}
