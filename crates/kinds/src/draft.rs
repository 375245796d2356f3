//! An object on its way into the store: typed inside, erased outside.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use setpoint_api::field::Errors;
use setpoint_schema::Tree;

use crate::kind::Problem;
use crate::strategy::Facts;

/// An object that may still change. The functions that take another draft need one of the same kind.
pub trait Draft: Any + Send + Sync + Debug {
    fn metadata(&self) -> &ObjectMeta;
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    fn default_fields(&mut self);
    fn prepare_create(&mut self, facts: &Facts);
    fn prepare_update(&mut self, old: &dyn Draft, facts: &Facts);
    fn prepare_status(&mut self, old: &dyn Draft, facts: &Facts);
    fn prepare_part(&mut self, name: &str, old: &dyn Draft, facts: &Facts);

    /// Metadata first, then the kind's own rules.
    fn validate(&self, errors: &Errors<'_>);
    /// Includes [`Draft::validate`].
    fn validate_update(&self, old: &dyn Draft, errors: &Errors<'_>);
    /// Metadata, and what may not follow in a status.
    fn validate_status(&self, old: &dyn Draft, errors: &Errors<'_>);

    fn graceful_deletion(&self, asked: Option<i64>) -> Option<i64>;
    fn begin_deletion(&mut self);
    fn is_held(&self) -> bool;
    fn expires_after(&self, facts: &Facts) -> Option<Duration>;

    /// The object as a document, to be written.
    fn to_tree(&self) -> Result<Tree, Problem>;
    fn boxed_clone(&self) -> Box<dyn Draft>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl dyn Draft {
    /// The typed object, if it is a `T`.
    pub fn typed<T: 'static>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }

    /// The typed object to change, if it is a `T`.
    pub fn typed_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.as_any_mut().downcast_mut()
    }

    /// The name; empty while it has none.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }
}

impl Clone for Box<dyn Draft> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
