//! Messages about images.

use super::Int64Value;
use super::node::FilesystemUsage;

/// A reference to an image.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(crate) image: String,
    #[prost(string, tag = "18")]
    pub(crate) user_specified_image: String,
}

/// Request for the status of an image.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ImageStatusRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageSpec>,
}

/// The image, if it is present.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ImageStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<Image>,
}

/// An image on the node.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Image {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) repo_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) repo_digests: Vec<String>,
    #[prost(uint64, tag = "4")]
    pub(crate) size: u64,
    #[prost(message, optional, tag = "5")]
    pub(crate) uid: Option<Int64Value>,
    #[prost(string, tag = "6")]
    pub(crate) username: String,
    #[prost(bool, tag = "8")]
    pub(crate) pinned: bool,
}

/// All images.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) images: Vec<Image>,
}

/// Credentials of a registry.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AuthConfig {
    #[prost(string, tag = "1")]
    pub(crate) username: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
    #[prost(string, tag = "3")]
    pub(crate) auth: String,
    #[prost(string, tag = "4")]
    pub(crate) server_address: String,
    #[prost(string, tag = "5")]
    pub(crate) identity_token: String,
    #[prost(string, tag = "6")]
    pub(crate) registry_token: String,
}

/// Request to pull an image.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PullImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(message, optional, tag = "2")]
    pub(crate) auth: Option<AuthConfig>,
}

/// The id of a pulled image.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PullImageResponse {
    #[prost(string, tag = "1")]
    pub(crate) image_ref: String,
}

/// Request to remove an image.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RemoveImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageSpec>,
}

/// The file systems of images.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ImageFsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) image_filesystems: Vec<FilesystemUsage>,
}
