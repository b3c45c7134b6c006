//! Admission of what others than this server answer: requests for tokens.

use std::sync::Arc;

use kubeapi::Status;
use serde_json::Value;

use super::Warnings;
use crate::registry::Resource;
use crate::server::{Call, Request, Server};

impl Server {
    /// Lets the body of a request that creates be changed. Gives the warnings.
    ///
    /// # Errors
    /// If somebody refuses it.
    pub(crate) async fn change_part(
        &self,
        request: &Request,
        resource: &Arc<Resource>,
        body: &mut Value,
        dry_run: bool,
    ) -> Result<Vec<String>, Status> {
        let warnings = Warnings::default();
        let call = Call { request, resource, warnings: &warnings, alone: false };
        self.admit_change(call, body, None, dry_run).await?;
        Ok(warnings.take())
    }

    /// Asks whether what a request creates may be. Gives the warnings.
    ///
    /// # Errors
    /// If somebody refuses it.
    pub(crate) async fn judge_part(
        &self,
        request: &Request,
        resource: &Arc<Resource>,
        body: &Value,
        dry_run: bool,
    ) -> Result<Vec<String>, Status> {
        let warnings = Warnings::default();
        let call = Call { request, resource, warnings: &warnings, alone: false };
        self.admit(call, body, None, dry_run).await?;
        Ok(warnings.take())
    }
}
