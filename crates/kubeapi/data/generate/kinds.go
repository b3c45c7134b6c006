package main

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type kind struct {
	// `*` for what every group has.
	apiVersion string
	object     any
}

// The kinds that the server knows in protobuf; what they are made of follows by itself.
func allKinds() []kind {
	var all []kind
	for apiVersion, objects := range map[string][]any{
		"*": {
			&metav1.CreateOptions{}, &metav1.DeleteOptions{}, &metav1.GetOptions{}, &metav1.ListOptions{},
			&metav1.PatchOptions{}, &metav1.UpdateOptions{}, &metav1.WatchEvent{},
		},
		"apidiscovery.k8s.io/v2":      {&apidiscoveryv2.APIGroupDiscoveryList{}},
		"apidiscovery.k8s.io/v2beta1": {&apidiscoveryv2beta1.APIGroupDiscoveryList{}},
		"meta.k8s.io/v1":              {&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}},
		"v1": {
			&metav1.APIGroup{}, &metav1.APIGroupList{}, &metav1.APIResourceList{}, &metav1.APIVersions{}, &metav1.Status{},
			&corev1.Binding{},
			&corev1.ConfigMap{}, &corev1.ConfigMapList{}, &corev1.Endpoints{}, &corev1.EndpointsList{},
			&corev1.Event{}, &corev1.EventList{}, &corev1.List{}, &corev1.Namespace{}, &corev1.NamespaceList{},
			&corev1.Node{}, &corev1.NodeList{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{},
			&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}, &corev1.Pod{}, &corev1.PodList{},
			&corev1.Secret{}, &corev1.SecretList{}, &corev1.Service{}, &corev1.ServiceAccount{},
			&corev1.ServiceAccountList{}, &corev1.ServiceList{},
		},
		"apps/v1": {
			&appsv1.ControllerRevision{}, &appsv1.ControllerRevisionList{}, &appsv1.DaemonSet{}, &appsv1.DaemonSetList{},
			&appsv1.Deployment{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSet{}, &appsv1.ReplicaSetList{},
			&appsv1.StatefulSet{}, &appsv1.StatefulSetList{},
		},
		"autoscaling/v1":         {&autoscalingv1.Scale{}},
		"batch/v1":               {&batchv1.CronJob{}, &batchv1.CronJobList{}, &batchv1.Job{}, &batchv1.JobList{}},
		"policy/v1":              {&policyv1.Eviction{}, &policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudgetList{}},
		"events.k8s.io/v1":       {&eventsv1.Event{}, &eventsv1.EventList{}},
		"discovery.k8s.io/v1":    {&discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{}},
		"coordination.k8s.io/v1": {&coordinationv1.Lease{}, &coordinationv1.LeaseList{}},
		"storage.k8s.io/v1": {
			&storagev1.CSINode{}, &storagev1.CSINodeList{}, &storagev1.StorageClass{}, &storagev1.StorageClassList{},
			&storagev1.VolumeAttachment{}, &storagev1.VolumeAttachmentList{},
		},
		"rbac.authorization.k8s.io/v1": {
			&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRoleBindingList{},
			&rbacv1.ClusterRoleList{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.RoleBindingList{}, &rbacv1.RoleList{},
		},
		"admissionregistration.k8s.io/v1": {
			&admissionregistrationv1.MutatingWebhookConfiguration{},
			&admissionregistrationv1.MutatingWebhookConfigurationList{},
			&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyList{},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
			&admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
			&admissionregistrationv1.ValidatingWebhookConfiguration{},
			&admissionregistrationv1.ValidatingWebhookConfigurationList{},
		},
		"apiextensions.k8s.io/v1": {
			&apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinitionList{},
		},
		"authentication.k8s.io/v1": {
			&authenticationv1.SelfSubjectReview{}, &authenticationv1.TokenRequest{}, &authenticationv1.TokenReview{},
		},
		"authorization.k8s.io/v1": {
			&authorizationv1.LocalSubjectAccessReview{}, &authorizationv1.SelfSubjectAccessReview{},
			&authorizationv1.SelfSubjectRulesReview{}, &authorizationv1.SubjectAccessReview{},
		},
	} {
		for _, object := range objects {
			all = append(all, kind{apiVersion, object})
		}
	}
	return all
}

// What all of upstream's generated types can.
type marshaler interface {
	runtime.Object
	Marshal() ([]byte, error)
}
