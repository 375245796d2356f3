//! Decoding: from the body of a request to an object with its defaults, and from a stored object to the version of the
//! request.

use std::sync::Arc;

use setpoint_api::options::FieldValidation;
use setpoint_api::{Payload, Status, Stored};
use setpoint_codec::strict;
use setpoint_schema::{Shape, Tree};
use setpoint_strategy::{InvalidObject, meta};

use crate::error;
use crate::owner_references::{self, Phase};
use crate::request_context::RequestContext;

impl RequestContext<'_> {
    /// Decodes a body of this resource's kind and sets its defaults.
    pub(crate) fn decode(&self, payload: &Payload, validation: FieldValidation) -> Result<Tree, Status> {
        let decoded = self.kind.decode(&payload.bytes, payload.encoding, validation);
        let decoded = decoded.map_err(|error| Status::bad_request(error.to_string()))?;
        self.set_warnings(decoded.warnings);
        let mut object = decoded.tree;
        self.prepare_input(&mut object)
            .map_err(|problem| self.decode_error(&problem))?;
        if let Some(warning) = owner_references::dedup(&mut object, Phase::Decoded) {
            self.add_warning(warning);
        }
        Ok(object)
    }

    /// Decodes a body of another kind, by its shape.
    pub(crate) fn decode_as(
        &self,
        payload: &Payload,
        shape: &Shape,
        validation: FieldValidation,
    ) -> Result<Tree, Status> {
        let decoded = strict::decode(&payload.bytes, payload.encoding, shape, validation);
        let decoded = decoded.map_err(|error| Status::bad_request(error.to_string()))?;
        self.set_warnings(decoded.warnings);
        Ok(decoded.tree)
    }

    /// Normalizes a decoded object and sets its defaults. An empty list of managed fields stays, since it resets them; in
    /// an object of a custom kind it has no meaning.
    pub(crate) fn prepare_input(&self, object: &mut Tree) -> Result<(), InvalidObject> {
        let managers = meta::find(object, "managedFields").and_then(Tree::as_list);
        let resets_managers = !self.kind_info().is_custom && managers.is_some_and(<[Tree]>::is_empty);
        self.kind.prepare_input(object)?;
        self.kind.default_for_request(object, &self.facts);
        if resets_managers {
            meta::set(object, "managedFields", Vec::new());
        }
        Ok(())
    }

    /// The tree of a stored object in the version of the request.
    pub(crate) fn to_request_version(&self, object: &Arc<Stored>) -> Result<Tree, Status> {
        let tree = match self.kind.converts() {
            false => setpoint_codec::json::parse(object.json()),
            true => {
                let object = self.kind.to_request_version(object);
                setpoint_codec::json::parse(object.map_err(error::undecodable)?.json())
            }
        };
        tree.map_err(Status::internal)
    }

    /// The name of the object must be that of the URL.
    pub(crate) fn check_name(&self, object: &Tree) -> Result<(), Status> {
        let expected = self.target.name.as_deref().unwrap_or_default();
        match meta::name(object) {
            "" => Err(Status::bad_request(format!(
                "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
            ))),
            name if name != expected => Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({expected})"
            ))),
            _ => Ok(()),
        }
    }

    /// Sets the namespace of the URL; if the object has one it must be the same.
    pub(crate) fn default_namespace(&self, object: &mut Tree) -> Result<(), Status> {
        if !self.kind_info().is_namespaced() {
            meta::clear(object, "namespace");
            return Ok(());
        }
        let own = meta::str(object, "namespace");
        if !own.is_empty() && own != self.namespace() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if own.is_empty() {
            meta::set(object, "namespace", self.namespace());
        }
        Ok(())
    }

    fn decode_error(&self, problem: &InvalidObject) -> Status {
        let gvk = &self.kind_info().gvk;
        Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: {problem}",
            gvk.version,
            kind = gvk.kind
        ))
    }
}
