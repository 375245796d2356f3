//! Conversion of an object to the versions of its field managers.
//!
//! A manager owns fields in the version that it wrote in, and managed fields are computed without awaiting. So the
//! computation runs, records which conversions it lacks, and runs again once the webhook has made them.

use compact_str::CompactString;

use setpoint_api::Status;
use setpoint_schema::Tree;

use super::ConversionError;
use crate::request_context::RequestContext;

/// The converted objects that the managed fields of a request are computed with.
#[derive(Debug, Default)]
pub(crate) struct ManagerVersions {
    known: Vec<VersionedObject>,
    /// The objects that the last computation lacked, and the versions it needs them in.
    missing: Vec<(Tree, CompactString)>,
}

#[derive(Debug)]
struct VersionedObject {
    source: Tree,
    api_version: CompactString,
    converted: Tree,
}

impl ManagerVersions {
    /// An object in the version of a manager. If it has not been converted yet, that is recorded.
    pub(crate) fn find(&mut self, object: &Tree, api_version: &str) -> Option<Tree> {
        let is_it = |known: &&VersionedObject| known.api_version == api_version && known.source == *object;
        let known = self.known.iter().find(is_it);
        if known.is_none() {
            self.missing.push((object.clone(), api_version.into()));
        }
        known.map(|known| known.converted.clone())
    }
}

impl RequestContext<'_> {
    /// Runs a computation of managed fields until it has every object in the versions that it needs.
    pub(crate) async fn with_manager_versions<T>(
        &self,
        compute: impl Fn() -> Result<T, Status>,
    ) -> Result<T, Status> {
        loop {
            let computed = compute();
            if self.kind.webhook_conversion().is_none() {
                return computed;
            }
            let missing = std::mem::take(&mut self.manager_versions.lock().missing);
            if missing.is_empty() {
                return computed;
            }
            drop(computed);
            Box::pin(self.convert_for_managers(missing)).await?;
        }
    }

    async fn convert_for_managers(&self, missing: Vec<(Tree, CompactString)>) -> Result<(), Status> {
        let Some(conversion) = self.kind.webhook_conversion() else {
            return Ok(());
        };
        for (source, api_version) in missing {
            let conversions = &self.registry.conversions;
            let converted = conversions.convert_tree(conversion, &source, &api_version).await;
            let converted = converted.map_err(ConversionError::into_write_error)?;
            self.manager_versions.lock().known.push(VersionedObject {
                source,
                api_version,
                converted,
            });
        }
        Ok(())
    }
}
