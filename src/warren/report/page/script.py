"""What moves on the page: tooltips, highlighting one job everywhere, sorting a table."""

from __future__ import annotations

from typing import Final

JS: Final = """
(function(){
"use strict";
var tip=document.getElementById("tip"),data={};
function infoOf(run){
  if(!(run.id in data)){var box=run.querySelector("script[type='application/json']");
    data[run.id]=box?JSON.parse(box.textContent):null}
  return data[run.id]}
function words(target,event){
  if(target.dataset.t)return target.dataset.t;
  var run=target.closest("[data-run]"),info=run&&infoOf(run),j=target.dataset.j;
  if(!info||j===undefined||!info.jobs[j])return "";
  var text=info.jobs[j][0]+"\\n"+info.jobs[j][1],svg=target.ownerSVGElement;
  if(svg&&svg.closest(".gantt")){
    var box=svg.getBoundingClientRect();
    var row=Math.floor((event.clientY-box.top)/box.height*info.devices.length);
    var at=info.from+(event.clientX-box.left)/box.width*(info.to-info.from);
    text+="\\n"+(info.devices[row]||"")+" at "+at.toFixed(at<100?2:1)+" s"}
  return text}
function show(event){
  var target=event.target.closest&&event.target.closest("svg [data-j],svg [data-t]");
  var text=target?words(target,event):"";
  tip.style.display=text?"block":"none";
  if(!text)return;
  tip.textContent=text;
  var x=event.clientX+14,y=event.clientY+14,w=tip.offsetWidth,h=tip.offsetHeight;
  tip.style.left=Math.max(4,x+w>innerWidth?x-w-28:x)+"px";
  tip.style.top=Math.max(4,y+h>innerHeight?y-h-28:y)+"px"}
function light(scope,key){
  scope.querySelectorAll("svg").forEach(function(svg){
    var hits=key?svg.querySelectorAll("[data-k='"+key+"']"):[];
    svg.querySelectorAll(".on").forEach(function(old){old.classList.remove("on")});
    svg.classList.toggle("dim",hits.length>0);
    hits.forEach(function(hit){hit.classList.add("on")})})}
function over(event){
  var hit=event.target.closest&&event.target.closest("[data-k]");
  var scope=event.target.closest&&event.target.closest("[data-run]");
  if(scope)light(scope,hit?hit.dataset.k:"")}
document.addEventListener("mousemove",show);
document.addEventListener("mouseover",over);
document.addEventListener("focusin",over);
document.addEventListener("mouseleave",function(){tip.style.display="none"});
function value(row,column){
  var cell=row.cells[column],number=cell.dataset.v;
  return number===undefined?cell.textContent:parseFloat(number)}
function sort(button){
  var head=button.closest("th"),table=head.closest("table"),column=head.cellIndex;
  var up=head.getAttribute("aria-sort")!=="ascending",body=table.tBodies[0];
  table.querySelectorAll("th").forEach(function(other){other.removeAttribute("aria-sort")});
  head.setAttribute("aria-sort",up?"ascending":"descending");
  Array.from(body.rows).sort(function(a,b){
    var x=value(a,column),y=value(b,column),sign=up?1:-1;
    if(typeof x!==typeof y)return typeof x==="number"?-1:1;
    return sign*(typeof x==="number"?x-y:x.localeCompare(y,undefined,{numeric:true}))
  }).forEach(function(row){body.appendChild(row)})}
document.querySelectorAll("table.sortable th button").forEach(function(button){
  button.addEventListener("click",function(){sort(button)})});
function unfold(){
  var goal=document.getElementById(location.hash.slice(1));
  if(goal){goal.open=true;goal.scrollIntoView()}}
addEventListener("hashchange",unfold);
if(location.hash)unfold();
})();
"""
