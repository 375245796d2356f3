//! Packages: the files of an operator, and the objects that they become.
//!
//! A package is a directory or a tarball with `operator.yaml`, `params.yaml` and `templates/`. [`files`] parses it,
//! [`resources`] converts it to objects, [`resolver`] finds it and the packages that it depends on, [`verify`] reports
//! mistakes, [`tarball`] packs and unpacks it, [`repository`] downloads it.

pub mod files;
pub mod repository;
pub mod resolver;
pub mod resources;
pub mod semver;
pub mod tarball;
pub mod verify;

pub use files::PackageFiles;
pub use resolver::Resolver;
pub use resources::Resources;
