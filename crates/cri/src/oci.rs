//! OCI image archives, written without a registry or a build tool: the sandbox image of a private containerd, and the
//! images of tests.
//!
//! Format: <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>, in a tar archive, with the names of
//! images in containerd's annotation. Equal images have equal digests.

mod pause;
mod tar;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use pause::pause_image;

/// An image of one layer.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Its full references, such as `docker.io/library/busybox:1.35`.
    pub names: Vec<String>,
    /// Its entry point.
    pub entrypoint: Vec<String>,
    /// Its default arguments.
    pub cmd: Vec<String>,
    /// Its user; empty for root.
    pub user: String,
    /// Further environment variables, as `NAME=value`.
    pub env: Vec<String>,
    /// Its files. Directories come before what they have.
    pub files: Vec<File>,
}

/// A file of an image.
#[derive(Debug, Clone)]
pub struct File {
    /// The path, without a leading slash.
    pub path: String,
    /// The permission bits.
    pub mode: u32,
    /// What it is.
    pub content: Content,
}

/// The content of a file.
#[derive(Debug, Clone)]
pub enum Content {
    /// A regular file.
    Bytes(Vec<u8>),
    /// A directory.
    Directory,
    /// A symbolic link to this path.
    Link(String),
}

/// A blob and its digest.
#[derive(Debug)]
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An archive with these images.
pub fn archive(images: &[Image]) -> Vec<u8> {
    let mut blobs: Vec<Blob> = Vec::new();
    let mut manifests = Vec::new();
    for image in images {
        let [layer, config, manifest] = image_blobs(image);
        for name in &image.names {
            let mut entry = descriptor(MANIFEST, &manifest);
            entry["annotations"] = json!({ "io.containerd.image.name": name });
            manifests.push(entry);
        }
        for blob in [layer, config, manifest] {
            if blobs.iter().all(|other| other.digest != blob.digest) {
                blobs.push(blob);
            }
        }
    }
    let index = json!({ "schemaVersion": 2, "manifests": manifests });
    let mut archive = tar::Writer::default();
    archive.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
    archive.file("index.json", 0o644, index.to_string().as_bytes());
    for blob in &blobs {
        let path = format!("blobs/{}", blob.digest.replace(':', "/"));
        archive.file(&path, 0o644, &blob.bytes);
    }
    archive.finish()
}

/// The layer, the configuration and the manifest of an image.
fn image_blobs(image: &Image) -> [Blob; 3] {
    let layer = Blob::new(layer(&image.files));
    let env: Vec<_> = std::iter::once(PATH.to_owned())
        .chain(image.env.clone())
        .collect();
    let config = Blob::json(&json!({
        "architecture": architecture(),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": { "Env": env, "Entrypoint": image.entrypoint, "Cmd": image.cmd, "User": image.user },
        "rootfs": { "type": "layers", "diff_ids": [layer.digest] },
    }));
    let manifest = Blob::json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, &layer)],
    }));
    [layer, config, manifest]
}

fn layer(files: &[File]) -> Vec<u8> {
    let mut layer = tar::Writer::default();
    for file in files {
        match &file.content {
            Content::Bytes(bytes) => layer.file(&file.path, file.mode, bytes),
            Content::Directory => layer.directory(&file.path, file.mode),
            Content::Link(target) => layer.link(&file.path, target),
        }
    }
    layer.finish()
}

fn descriptor(media_type: &str, blob: &Blob) -> Value {
    json!({ "mediaType": media_type, "digest": blob.digest, "size": blob.bytes.len() })
}

/// The architecture as Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        let hash = Sha256::digest(&bytes);
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            digest: format!("sha256:{hex}"),
            bytes,
        }
    }

    fn json(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }
}
